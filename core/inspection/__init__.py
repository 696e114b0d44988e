"""What a file is, what is in it, what is odd about it and how to run it, without running it."""

from .files import inspect_path
from .report import Report, TensorGroup

__all__ = ["Report", "TensorGroup", "inspect_path"]
