"""The demo voice that comes with the package: a small custom_voice model that speaks English."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ..errors import ModelFileError
from ..formats.qwen import TalkerFile
from .requests import Habits

_PACKAGE = "ggtts.demo"
_NAME = "ggtts demo voice"
"""`general.name` of its talker file."""

DEMO_HABITS = Habits(first_speaker=True, words_per_piece=20)
"""It was trained on single sentences of up to 25 words."""


def demo_paths() -> tuple[Path, Path]:
    """Return the packaged (talker, codec) files.

    Raises:
        ModelFileError: this installation lacks them.
    """
    return _packaged("talker"), _packaged("codec")


def is_demo(file: TalkerFile) -> bool:
    """Tell whether a talker is the demo voice."""
    return file.name == _NAME


def _packaged(part: str) -> Path:
    folder = Path(str(files(_PACKAGE)))
    found = sorted(folder.glob(f"*-{part}-*.gguf"))
    if not found:
        raise ModelFileError(
            f"{folder}: the {part} of the demo voice is missing; reinstall ggtts, or name a model"
        )
    return found[0]
