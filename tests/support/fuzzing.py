"""Damaged files: how they are made, how many, and a process of limited memory to read them in.

GGTTS_FUZZ_EXAMPLES sets how many examples each test makes (`make fuzz` asks for many); without it, few enough for the
suite.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ggtts.core.errors import GgttsError

EXAMPLES = int(os.environ.get("GGTTS_FUZZ_EXAMPLES", "100"))
QUICK = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="GGTTS_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
"""The same examples every time, unless more are asked for."""

_ENVIRONMENT = {
    "PYTHONPATH": str(Path(__file__).parents[1]),
    "OPENBLAS_NUM_THREADS": "1",
    "GGML_NO_BACKTRACE": "1",
    "MALLOC_ARENA_MAX": "1",
}

# fmt: off
HOSTILE_SIZES = (
    0, 1, 2, 3, 7, 8, 31, 255, 256, 65535, 65536,
    2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1,
)
# fmt: on
"""Numbers that sizes are compared, added or multiplied with at their edges."""

Mutation = tuple[str, int, int]
"""Kind, place, value."""

MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "byte", "cut", "drop", "repeat", "u32", "u64"]),
        st.integers(0, 2**20),
        st.one_of(st.integers(0, 255), st.sampled_from(HOSTILE_SIZES)),
    ),
    min_size=1,
    max_size=6,
)


def mutate(data: bytes, mutations: Sequence[Mutation]) -> bytes:
    """Return data with bits flipped, bytes or numbers overwritten, parts dropped, repeated or cut off."""
    changed = bytearray(data)
    for kind, place, value in mutations:
        if not changed:
            break
        index = place % len(changed)
        if kind == "flip":
            changed[index] ^= 1 << (value % 8)
        elif kind == "byte":
            changed[index] = value % 256
        elif kind == "cut":
            del changed[index:]
        elif kind == "drop":
            del changed[index : index + 1 + value % 64]
        elif kind == "repeat":
            changed[index:index] = changed[index : index + 1 + value % 64]
        else:
            width = 4 if kind == "u32" else 8
            changed[index : index + width] = (value % 2 ** (8 * width)).to_bytes(width, "little")
    return bytes(changed)


def only_clear_errors(action: Callable[[], object]) -> bool:
    """Run something: whether it worked. Anything but a GgttsError of one line is a failure of the test."""
    try:
        action()
    except GgttsError as error:
        message = str(error)
        assert message
        assert message.splitlines() == [message]
        assert len(message) < 2000
        return False
    return True


def cases_file(folder: Path, cases: Mapping[str, Any]) -> Path:
    """Write what a reading process is to do."""
    path = folder / "cases.json"
    path.write_text(json.dumps(cases))
    return path


def read_in_limited_process(
    script: Path, arguments: Sequence[str | Path], *, megabytes: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """Run a script with room for so many megabytes beyond its own start; yield its JSON lines.

    Raises AssertionError when it crashes, hangs, or needs more.
    """
    ended = subprocess.run(
        [sys.executable, str(script), str(megabytes), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **_ENVIRONMENT},
    )
    assert ended.returncode == 0, (ended.returncode, ended.stdout[-500:], ended.stderr[-1500:])
    for line in ended.stdout.splitlines():
        yield json.loads(line)
