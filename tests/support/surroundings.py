"""What a user has set, for Python, for terminals or for ggtts, and what therefore reaches the commands under test."""

from __future__ import annotations

from collections.abc import MutableMapping

from ggtts.cli import tts_server

WORDS_OF_PYTHON = (
    "PYTHONDEVMODE",
    "PYTHONFAULTHANDLER",
    "PYTHONMALLOCSTATS",
    "PYTHONPROFILEIMPORTTIME",
    "PYTHONTRACEMALLOC",
    "PYTHONUNBUFFERED",
    "PYTHONVERBOSE",
    "PYTHONWARNINGS",
)
"""Have an interpreter say more on standard error than a command does, or write at other times."""

LOOKS = ("COLORTERM", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""How wide and how colourful what is no terminal is said to be."""


SHARED = ("PROMETHEUS_MULTIPROC_DIR",)
"""Have the numbers of servers, which every test counts from nought, added to those of others."""


def make_usual(environment: MutableMapping[str, str]) -> None:
    """Take away what would change what a command prints, and variables that stand for options of `tts-server`.

    A proxy, where there is one, leads to other machines, and the servers under test are on this one. A script that
    runs without a terminal may tell nothing of one, or that it is dumb; tests bring their own.
    """
    options = (option.envvar for option in tts_server.command.params)
    for name in (*WORDS_OF_PYTHON, *LOOKS, *SHARED, "GGTTS_TRACEBACK", *options):
        if isinstance(name, str):
            environment.pop(name, None)
    environment["NO_PROXY"] = environment["no_proxy"] = "*"
    environment["TERM"] = "xterm"
