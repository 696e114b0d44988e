"""Another process that wants a core all the time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# It ends with its parent too, however that ends.
BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(10000))"


@contextmanager
def busy_process() -> Iterator[None]:
    """Keep one core busy for as long as the block takes."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        process.terminate()
        process.wait()
