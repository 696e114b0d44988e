"""`tts-server` as a process of its own, with the model that hums: `python humming_server.py ARGUMENTS`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ggtts.cli.errors import run
from ggtts.cli.tts_server import NAME, Services, command
from ggtts.core.server.serving import serve

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.humming_family import HummingFamily


@contextmanager
def open_model(*files: Any, **options: Any) -> Iterator[HummingFamily]:
    """Open a model that hums, whatever the options say."""
    yield HummingFamily()


if __name__ == "__main__":
    sys.exit(run(command, NAME, sys.argv[1:], Services(open_model, serve)))
