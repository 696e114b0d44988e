"""Where the commands begin: their modules are imported here, so that Ctrl-C while they load is no traceback."""

from __future__ import annotations

import sys
from importlib import import_module

INTERRUPTED = 130


def _start(module: str) -> None:
    try:
        import_module(f".{module}", __package__).main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def qwen_tts() -> None:
    """Run `qwen-tts`."""
    _start("qwen_tts")


def qwen_codec() -> None:
    """Run `qwen-codec`."""
    _start("qwen_codec")


def omnivoice_tts() -> None:
    """Run `omnivoice-tts`."""
    _start("omnivoice_tts")


def omnivoice_codec() -> None:
    """Run `omnivoice-codec`."""
    _start("omnivoice_codec")


def tts_server() -> None:
    """Run `tts-server`."""
    _start("tts_server")


def quantize() -> None:
    """Run `quantize`."""
    _start("quantize")


def ggtts() -> None:
    """Run `ggtts`."""
    _start("ggtts")
