"""Failures of the native engine as errors of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ggtts._native import DeviceError, FileError

from ..errors import EngineError, ModelFileError


@contextmanager
def native_failures() -> Iterator[None]:
    """Raise ModelFileError for a file that cannot be used, and EngineError for a device that failed."""
    try:
        yield
    except FileError as error:
        raise ModelFileError(str(error)) from error
    except DeviceError as error:
        raise EngineError(str(error)) from error
