"""Commands as processes: pipes that close, signals, start-up time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import humming_tts

TEXT = "This is one of many sentences that a voice says. " * 40
posix_only = pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX")


def start(
    *arguments: str | Path, seconds_per_frame: float = 0.02, text: str = TEXT
) -> subprocess.Popen[bytes]:
    """Start `qwen-tts` with the humming model, its text waiting on standard input."""
    process = subprocess.Popen(
        [sys.executable, humming_tts.__file__, str(seconds_per_frame), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    process.stdin.write(text.encode())
    process.stdin.close()
    process.stdin = None
    return process


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll for up to a minute."""
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


@posix_only
def test_a_reader_that_leaves_ends_the_run_quietly() -> None:
    process = start("-o", "-", "--quiet")
    assert process.stdout
    assert len(process.stdout.read(100)) == 100
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")


@posix_only
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_and_leaves_no_file(tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = start("-o", tmp_path / "out.wav", "--quiet")
    wait_until(lambda: any(tmp_path.iterdir()))
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (code, b"", b"")
    assert not list(tmp_path.iterdir())


@posix_only
def test_a_slow_reader_gets_every_byte() -> None:
    process = start("-o", "-", "--quiet", seconds_per_frame=0)
    assert process.stdout
    size = 0
    while piece := process.stdout.read(1 << 16):
        size += len(piece)
        time.sleep(0.002)
    assert process.wait(timeout=60) == 0
    assert size == 44 + 2 * 2 * 1920 * len(TEXT.split())


@posix_only
def test_a_full_disk_is_one_line() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    for arguments in (["-o", "/dev/full"], ["-o", "/dev/full", "--format", "flac"]):
        process = start(*arguments, "--quiet", seconds_per_frame=0)
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output) == (1, b"")
        assert errors.decode() == "qwen-tts: error: cannot write '/dev/full': No space left on device\n"


@posix_only
def test_a_closed_standard_input_is_a_usage_error() -> None:
    command = f"exec {sys.executable} {humming_tts.__file__} 0 -o x.wav <&-"
    result = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60, text=True)
    assert result.returncode == 2
    assert "no standard input" in result.stderr


@posix_only
def test_audio_is_not_written_to_a_terminal() -> None:
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    try:
        command = [sys.executable, humming_tts.__file__, "0", "-o", "-"]
        result = subprocess.run(command, input=b"Hi.", stdout=terminal, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(terminal)
        os.close(controller)
    assert result.returncode == 2
    assert b"terminal" in result.stderr


@posix_only
def test_a_terminal_sees_the_progress(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    command = [sys.executable, humming_tts.__file__, "0.005", "-o", str(tmp_path / "out.wav")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    process.communicate(TEXT[:200].encode(), timeout=60)
    seen = os.read(controller, 1 << 20).decode()
    os.close(controller)
    assert "frames" in seen
    assert "x real time" in seen


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    script = (
        "import sys; sys.argv = ['qwen-tts', '--help']\n"
        "from ggtts.cli.qwen_tts import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    before = processor_seconds_of_children()
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    seconds = processor_seconds_of_children() - before
    assert "--rep-pen" in result.stdout
    heavy = {"numpy", "tokenizers", "soundfile", "rich", "gguf", "ggtts._native", "ggtts.core.engine"}
    assert not heavy & set(result.stderr.split())
    # Processor time, because a busy machine may keep any process waiting.
    assert seconds < 0.3


def processor_seconds_of_children() -> float:
    """Time that all child processes have spent so far."""
    times = os.times()
    return times.children_user + times.children_system
