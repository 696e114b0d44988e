"""Terminals as tests see them: from the side of the screen."""

from __future__ import annotations

import os


def shown(controller: int) -> bytes:
    """Return all that programs print on a terminal until the last of them has ended, and close the controlling side."""
    seen = b""
    try:
        while piece := os.read(controller, 1 << 16):
            seen += piece
    except OSError:  # how Linux says that the other side is closed
        pass
    finally:
        os.close(controller)
    return seen
