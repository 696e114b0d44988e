"""What the files of ggtts say about themselves, as typed values: GGUF metadata here, no tensors and no engine."""

from .gguf_types import file_type_name

__all__ = ["file_type_name"]
