"""Commands as processes: pipes that close, signals, start-up time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from support import humming_tts
from support.patience import PATIENCE, wait_until
from support.platforms import posix_only
from support.starting import MOST_STEPS, help_of
from support.terminals import shown

TEXT = "This is one of many sentences that a voice says. " * 40
LONG = TEXT * 20
"""Hours of speech for the model: it is at its end only when it is stopped, however slow the test is."""


def start(
    *arguments: str | Path,
    seconds_per_frame: float = 0.02,
    text: str | None = TEXT,
    stdin: int = subprocess.PIPE,
    stdout: int | IO[bytes] = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start `qwen-tts` with the humming model, its text waiting on standard input; without a text it stays open."""
    process = subprocess.Popen(
        [sys.executable, humming_tts.__file__, str(seconds_per_frame), *map(str, arguments)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )
    if text is None:
        return process
    assert process.stdin
    process.stdin.write(text.encode())
    process.stdin.close()
    process.stdin = None
    return process


@posix_only
def test_a_reader_that_leaves_ends_the_run_quietly() -> None:
    process = start("-o", "-", "--quiet", text=LONG)
    assert process.stdout
    assert len(process.stdout.read(100)) == 100
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, b"")


@posix_only
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_and_leaves_no_file(tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = start("-o", tmp_path / "out.wav", "--quiet", text=LONG)
    wait_until(lambda: any(tmp_path.iterdir()))
    process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (code, b"", b"")
    assert not list(tmp_path.iterdir())


def start_ignoring(signals: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """Start `qwen-tts` with some words, as a child that inherits these signals ignored."""
    command = [sys.executable, humming_tts.__file__, *map(str, arguments)]
    process = subprocess.Popen(
        ["sh", "-c", f"trap '' {signals}; exec \"$@\"", "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    process.stdin.write(TEXT[:200].encode())
    process.stdin.close()
    process.stdin = None
    return process


@posix_only
def test_signals_that_are_ignored_from_the_start_stay_ignored(tmp_path: Path) -> None:
    """A shell without job control starts background jobs with SIGINT ignored, nohup starts all with SIGHUP ignored."""
    process = start_ignoring("INT HUP", "0.02", "-o", tmp_path / "out.wav", "--quiet")
    wait_until(lambda: any(tmp_path.iterdir()))
    for number in (signal.SIGINT, signal.SIGHUP):
        process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (0, b"", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["out.wav"]


@posix_only
@pytest.mark.parametrize("name", ["wav16", "flac"])
def test_sound_arrives_while_the_speech_is_being_made(name: str) -> None:
    """What the model has made so far is on the pipe."""
    process = start("-o", "-", "--quiet", "--format", name, seconds_per_frame=0.08, text=LONG)
    assert process.stdout
    assert len(process.stdout.read(4_000)) == 4_000
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (130, b"")


@posix_only
@pytest.mark.parametrize("name", ["wav16", "mp3", "ogg"])
def test_a_reader_that_leaves_while_an_encoder_works_is_no_error_either(name: str) -> None:
    process = start("-o", "-", "--quiet", "--format", name, seconds_per_frame=0.005, text=LONG)
    assert process.stdout
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, b"")


@posix_only
def test_a_slow_reader_gets_every_byte() -> None:
    process = start("-o", "-", "--quiet", seconds_per_frame=0)
    assert process.stdout
    size = 0
    while piece := process.stdout.read(1 << 16):
        size += len(piece)
        time.sleep(0.002)
    assert process.wait(timeout=PATIENCE) == 0
    assert size == 44 + 2 * 2 * 1920 * len(TEXT.split())


@posix_only
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["-o", "/dev/full"], "'/dev/full'"),
        (["-o", "/dev/full", "--format", "flac"], "'/dev/full'"),
        (["-o", "-"], "standard output"),
        (["-o", "-", "--format", "opus"], "standard output"),
        (["-o", "-", "--stream-by-line"], "standard output"),
    ],
)
def test_a_full_disk_is_one_line(arguments: list[str], name: str) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        process = start(*arguments, "--quiet", seconds_per_frame=0, stdout=full)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert errors.decode() == f"qwen-tts: error: cannot write {name}: No space left on device\n"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the memory of a process")
def test_half_an_hour_of_speech_takes_little_memory(tmp_path: Path) -> None:
    """10 000 words hum for 27 minutes, beyond what ten of them take; the samples alone would be 154 MB."""
    few, many = (peak_bytes(tmp_path / "out.wav", words) for words in (10, 10_000))
    assert many < few + 30_000_000


def peak_bytes(target: Path, words: int) -> int:
    """Hum so many words, and return the largest resident memory of the process."""
    script = (
        "import runpy, sys; sys.argv = sys.argv[1:]\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "finally: print(*(line for line in open('/proc/self/status') if 'VmHWM' in line), file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, humming_tts.__file__, "0", "-o", str(target), "--quiet"]
    result = subprocess.run(command, input=b"word " * words, capture_output=True, timeout=PATIENCE)
    assert (result.returncode, result.stdout) == (0, b"")
    assert target.stat().st_size == 44 + words * 2 * 2 * 1920
    label, kilobytes, unit = result.stderr.decode().split()
    assert (label, unit) == ("VmHWM:", "kB")
    return 1024 * int(kilobytes)


@posix_only
def test_a_closed_standard_input_is_a_usage_error(tmp_path: Path) -> None:
    command = f"exec {sys.executable} {humming_tts.__file__} 0 -o x.wav <&-"
    result = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, timeout=PATIENCE, text=True
    )
    assert result.returncode == 2
    assert "no standard input" in result.stderr


@posix_only
def test_audio_is_not_written_to_a_terminal() -> None:
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    try:
        command = [sys.executable, humming_tts.__file__, "0", "-o", "-"]
        result = subprocess.run(
            command, input=b"Hi.", stdout=terminal, stderr=subprocess.PIPE, timeout=PATIENCE
        )
    finally:
        os.close(terminal)
        os.close(controller)
    assert result.returncode == 2
    assert b"terminal" in result.stderr


UTTERANCE = 44 + 2 * 2 * 1920
"""Bytes of one word: two frames, and a header."""
BY_LINE = ("-o", "-", "--stream-by-line", "--quiet")


def read_utterance(process: subprocess.Popen[bytes]) -> None:
    """Wait for the sound of one word."""
    assert process.stdout
    data = process.stdout.read(UTTERANCE)
    assert (len(data), data[:4], data.count(b"RIFF")) == (UTTERANCE, b"RIFF", 1)


@posix_only
def test_a_line_on_a_pipe_is_spoken_before_the_next_one_comes() -> None:
    process = start(*BY_LINE, text=None, seconds_per_frame=0)
    assert process.stdin
    for line in (b"One\n", b"\r\nTwo\r\n"):
        process.stdin.write(line)
        process.stdin.flush()
        read_utterance(process)
    output, errors = process.communicate(b"end", timeout=PATIENCE)
    assert (process.returncode, len(output), errors) == (0, UTTERANCE, b"")


@posix_only
def test_a_line_typed_at_a_terminal_is_spoken() -> None:
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    process = start(*BY_LINE, text=None, stdin=terminal, seconds_per_frame=0)
    try:
        for line in (b"One\n", b"\n", b"Two\n", b"Three\n"):
            os.write(controller, line)
            if line.strip():
                read_utterance(process)
        os.write(controller, b"\x04")
        output, errors = process.communicate(timeout=PATIENCE)
    finally:
        os.close(terminal)
        os.close(controller)
    assert (process.returncode, output, errors) == (0, b"", b"")


@posix_only
def test_a_reader_that_leaves_between_two_lines_ends_the_run() -> None:
    process = start(*BY_LINE, text=None, seconds_per_frame=0)
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"One\n")
    process.stdin.flush()
    read_utterance(process)
    process.stdout.close()
    assert process.wait(timeout=PATIENCE) == 0
    assert process.stderr
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()


@posix_only
def test_an_interrupt_between_two_lines_ends_the_run() -> None:
    process = start(*BY_LINE, text=None, seconds_per_frame=0)
    assert process.stdin
    process.stdin.write(b"One\n")
    process.stdin.flush()
    read_utterance(process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (130, b"", b"")


@posix_only
@pytest.mark.parametrize("lines", [(), ("--stream-by-line",)])
def test_a_person_at_a_terminal_is_told_what_to_type(tmp_path: Path, lines: tuple[str, ...]) -> None:
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    process = start("-o", "-", *lines, text=None, stdin=terminal, seconds_per_frame=0)
    assert process.stderr
    hint = process.stderr.readline()
    os.write(controller, b"One\n\x04")
    output, _ = process.communicate(timeout=PATIENCE)
    os.close(terminal)
    os.close(controller)
    assert (process.returncode, len(output)) == (0, UTTERANCE)
    assert hint.startswith(b"Type a line" if lines else b"Type the text")


@posix_only
def test_a_terminal_sees_the_progress(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    command = [sys.executable, humming_tts.__file__, "0.005", "-o", str(tmp_path / "out.wav")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    assert process.stdin
    process.stdin.write(TEXT[:200].encode())
    process.stdin.close()
    seen = shown(controller).decode()
    assert process.wait(timeout=PATIENCE) == 0
    assert "frames" in seen
    assert "x real time" in seen


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    help = help_of("ggtts.cli.qwen_tts")
    assert "--rep-pen" in help.text
    heavy = {"numpy", "tokenizers", "soundfile", "rich", "gguf", "ggtts._native", "ggtts.core.engine"}
    assert not help.modules & heavy
    assert help.steps < MOST_STEPS
