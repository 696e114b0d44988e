"""Files made once per test run and used by every pytest-xdist worker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def make_once(path: Path, make: Callable[[Path], object]) -> Path:
    """Return `path`, made by `make(temporary path)` unless it exists.

    Workers that arrive together may make it twice; the rename decides, and all get the same complete result. So no
    lock is needed and a killed worker leaves nothing that others wait for.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    make(temporary)
    try:
        temporary.rename(path)
    except OSError:
        if not path.exists():
            raise
        shutil.rmtree(temporary, ignore_errors=True)
    return path
