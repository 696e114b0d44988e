"""Which names stand for the same file."""

from __future__ import annotations

import os
from pathlib import Path


def identity(path: str | Path) -> object:
    """Equal for all names of one file: links, and letters of either case where the system sees no difference."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def same_file(one: str | Path, other: str | Path) -> bool:
    """Tell whether two names stand for one file or folder."""
    return identity(one) == identity(other)
