"""ggtts speaks: text to speech from GGUF files on GGML."""

__version__ = "0.1.0"
