"""Commands on a device that GGML gives up on in the middle of a speech."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import giving_up_tts
from support.patience import PATIENCE

NO_MEMORY = "CUDA error: out of memory"
LOST = "CUDA error: an illegal memory access was encountered"
LOST_BY_VULKAN = "vk::Queue::submit: ErrorDeviceLost"
TEXT = b"Hello there. How are you today?"


def speak(run: int, error: str, output: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Speak with the demo voice until that run of a program."""
    options = ["--device", "cpu", "--seed", "1", "-o", output]
    command = [sys.executable, giving_up_tts.__file__, str(run), error, *options]
    return subprocess.run(
        command,
        input=TEXT,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("run", [1, 30])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            NO_MEMORY,
            f"device 'cpu': it ran out of memory ({NO_MEMORY}): "
            "do less at a time, take a smaller model or a quantised file",
        ),
        (LOST, f"device 'cpu': {LOST} (MUL_MAT failed; a statement)"),
        (LOST_BY_VULKAN, f"device 'cpu': {LOST_BY_VULKAN}: as its driver says"),
    ],
    ids=["memory", "lost", "vulkan"],
)
@pytest.mark.parametrize("stock", ["0", "1"])
def test_the_end_is_one_line_and_no_file(
    tmp_path: Path, run: int, error: str, message: str, stock: str
) -> None:
    target = tmp_path / "out.wav"
    target.write_bytes(b"what was there before")
    done = speak(run, error, str(target), GGTTS_STOCK=stock)
    assert done.returncode == 1
    note, line = done.stderr.decode().splitlines()
    assert note.startswith("qwen-tts: note: ")
    assert line == f"qwen-tts: error: {message}"
    assert [path.name for path in tmp_path.iterdir()] == ["out.wav"]
    assert target.read_bytes() == b"what was there before"


def test_what_was_said_before_is_heard() -> None:
    done = speak(30, NO_MEMORY, "-")
    assert done.returncode == 1
    assert len(done.stdout) > 1000
