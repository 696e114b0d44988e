"""`qwen-codec` as a process, with the packaged demo codec: closed pipes, full disks, signals, terminals, start-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ggtts.core.formats import rvq
from support.patience import PATIENCE, wait_until
from support.platforms import needs_full_disk, posix_only
from support.starting import MOST_STEPS, help_of
from support.terminals import shown

pytest.importorskip("ggtts._native")
pytestmark = posix_only
COMMAND = [sys.executable, "-m", "ggtts.cli.qwen_codec", "--threads", "1"]


@pytest.fixture(scope="module")
def long_codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hours, which take minutes to decode."""
    path = tmp_path_factory.mktemp("codes") / "long.rvq"
    rvq.write(path, np.random.default_rng(0).integers(0, 256, (135_000, 16)))
    return path


@pytest.fixture(scope="module")
def short_codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight seconds."""
    path = tmp_path_factory.mktemp("codes") / "short.rvq"
    rvq.write(path, np.random.default_rng(0).integers(0, 256, (100, 16)))
    return path


def start(*arguments: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_reader_that_leaves_ends_the_run_quietly(long_codes: Path) -> None:
    process = start(long_codes, "-o", "-", "--quiet")
    assert process.stdout
    assert len(process.stdout.read(100)) == 100
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, b"")


def test_a_slow_reader_gets_every_byte(short_codes: Path) -> None:
    process = start(short_codes, "-o", "-", "--quiet")
    assert process.stdout
    size = 0
    while piece := process.stdout.read(1 << 15):
        size += len(piece)
        time.sleep(0.01)
    assert process.wait(timeout=PATIENCE) == 0
    assert size == 44 + 2 * 100 * 1920


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_and_leaves_no_file(
    long_codes: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = start(long_codes, "-o", tmp_path / "out.wav", "--quiet")
    wait_until(lambda: any(tmp_path.iterdir()))
    process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (code, b"", b"")
    assert not list(tmp_path.iterdir())


@needs_full_disk
def test_a_full_disk_is_one_line(short_codes: Path, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "clip.wav", np.full(4800, 0.1), 24_000)
    for source in (short_codes, tmp_path / "clip.wav"):
        process = start(source, "-o", "/dev/full", "--quiet")
        output, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, output) == (1, b"")
        assert errors.decode() == "qwen-codec: error: cannot write '/dev/full': No space left on device\n"
    with open("/dev/full", "wb") as full:
        command = [*COMMAND, str(tmp_path / "clip.wav"), "-o", "-", "--quiet"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE)
    assert result.returncode == 1
    assert result.stderr == b"qwen-codec: error: cannot write standard output: No space left on device\n"


def test_codes_and_audio_are_not_written_to_a_terminal(short_codes: Path) -> None:
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    try:
        command = [*COMMAND, str(short_codes), "-o", "-"]
        result = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, timeout=PATIENCE)
    finally:
        os.close(terminal)
        os.close(controller)
    assert result.returncode == 2
    assert result.stderr.count(b"\n") == 1
    assert b"terminal" in result.stderr


def test_a_terminal_sees_progress_errors_and_totals(short_codes: Path, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    (tmp_path / "bad.rvq").write_bytes(b"bad")
    (tmp_path / "good.rvq").write_bytes(short_codes.read_bytes())
    (tmp_path / "more.rvq").write_bytes(short_codes.read_bytes())
    controller, terminal = pty.openpty()
    process = subprocess.Popen([*COMMAND, "."], cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    text = shown(controller).decode()
    assert process.wait(timeout=PATIENCE) == 1
    assert "2 files: 200 frames  16.0 s of audio" in text
    assert "1 of 3 files failed" in text
    assert "bad.rvq is not a whole number of frames: 3 bytes" in text
    assert "3/3" in text
    assert "\x1b[2Kqwen-codec: error:" in text  # on a line of its own, not behind the bar


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    help = help_of("ggtts.cli.qwen_codec")
    assert "--out-dir" in help.text
    assert not help.modules & {"numpy", "soundfile", "rich", "gguf", "ggtts._native", "ggtts.core.engine"}
    assert help.steps < MOST_STEPS
