"""Where the commands begin: their modules are imported here, so that Ctrl-C while they load is no traceback."""

from __future__ import annotations

import sys
from importlib import import_module

from .interruption import interruptible


def _start(module: str) -> None:
    with interruptible() as interruption:
        try:
            import_module(f".{module}", __package__).main()
        except (Exception, KeyboardInterrupt):
            # While a class is made, Python may raise another error in place of the interrupt.
            if not interruption.has_come:
                raise
            sys.exit(interruption.exit_code)


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
