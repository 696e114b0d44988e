"""`qwen-codec` as a process, with the packaged demo codec: closed pipes, full disks, signals, terminals, start-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ggtts.core.formats import rvq

pytest.importorskip("ggtts._native")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX")
COMMAND = [sys.executable, "-m", "ggtts.cli.qwen_codec", "--threads", "1"]


@pytest.fixture(scope="module")
def long_codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten minutes, which take seconds to decode."""
    path = tmp_path_factory.mktemp("codes") / "long.rvq"
    rvq.write(path, np.random.default_rng(0).integers(0, 256, (7500, 16)))
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


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll for up to a minute."""
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_a_reader_that_leaves_ends_the_run_quietly(long_codes: Path) -> None:
    process = start(long_codes, "-o", "-", "--quiet")
    assert process.stdout
    assert len(process.stdout.read(100)) == 100
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")


def test_a_slow_reader_gets_every_byte(short_codes: Path) -> None:
    process = start(short_codes, "-o", "-", "--quiet")
    assert process.stdout
    size = 0
    while piece := process.stdout.read(1 << 15):
        size += len(piece)
        time.sleep(0.01)
    assert process.wait(timeout=60) == 0
    assert size == 44 + 2 * 100 * 1920


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_and_leaves_no_file(
    long_codes: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = start(long_codes, "-o", tmp_path / "out.wav", "--quiet")
    wait_until(lambda: any(tmp_path.iterdir()))
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (code, b"", b"")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_one_line(short_codes: Path, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "clip.wav", np.full(4800, 0.1), 24_000)
    for source in (short_codes, tmp_path / "clip.wav"):
        process = start(source, "-o", "/dev/full", "--quiet")
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output) == (1, b"")
        assert errors.decode() == "qwen-codec: error: cannot write '/dev/full': No space left on device\n"
    with open("/dev/full", "wb") as full:
        command = [*COMMAND, str(tmp_path / "clip.wav"), "-o", "-", "--quiet"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert result.returncode == 1
    assert result.stderr == b"qwen-codec: error: cannot write standard output: No space left on device\n"


def test_codes_and_audio_are_not_written_to_a_terminal(short_codes: Path) -> None:
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    try:
        command = [*COMMAND, str(short_codes), "-o", "-"]
        result = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, timeout=60)
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
    seen = b""
    while True:
        try:
            piece = os.read(controller, 1 << 16)
        except OSError:  # how Linux says that the other side is closed
            break
        if not piece:
            break
        seen += piece
    os.close(controller)
    assert process.wait(timeout=60) == 1
    text = seen.decode()
    assert "2 files: 200 frames  16.0 s of audio" in text
    assert "1 of 3 files failed" in text
    assert "bad.rvq is not a whole number of frames: 3 bytes" in text
    assert "3/3" in text
    assert "\x1b[2Kqwen-codec: error:" in text  # on a line of its own, not behind the bar


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    script = (
        "import sys; sys.argv = ['qwen-codec', '--help']\n"
        "from ggtts.cli.qwen_codec import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    before = processor_seconds_of_children()
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    seconds = processor_seconds_of_children() - before
    assert "--out-dir" in result.stdout
    heavy = {"numpy", "soundfile", "rich", "gguf", "ggtts._native", "ggtts.core.engine"}
    assert not heavy & set(result.stderr.split())
    # Processor time, because a busy machine may keep any process waiting.
    assert seconds < 0.3


def processor_seconds_of_children() -> float:
    """Time that all child processes have spent so far."""
    times = os.times()
    return times.children_user + times.children_system
