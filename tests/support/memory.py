"""What is let go of without the garbage collector."""

from __future__ import annotations

import gc
import sys


def let_go() -> None:
    """Collect what only Python 3.10 needs to collect: an exception that has passed a context manager of contextlib.

    Later versions of contextlib leave no cycle behind, and everything is gone when nobody refers to it.
    """
    if sys.version_info < (3, 11):
        gc.collect()
