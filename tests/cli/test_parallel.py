"""`qwen-tts --parallel`: the same bytes in the same order, whatever is spoken at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ggtts.cli.begun_lines import BegunLine, BegunLines
from ggtts.cli.errors import run
from ggtts.cli.qwen_tts import NAME, command
from ggtts.core.errors import UsageError
from ggtts.core.text.decoding import Line
from support import humming_tts
from support.data import DATA
from support.fake_model import FAILING_WORD, FakeModel
from support.patience import PATIENCE
from support.platforms import posix_only

Run = Callable[..., "Result"]  # noqa: F821 (of conftest.py)
CASES = DATA / "cases"
LINES = ("-o", "-", "--stream-by-line", "--seed", "3")

TEXTS = {
    "one": b"One two three.\n",
    "many": "\n".join(f"Line {'word ' * (number * 7 % 11)}{number}" for number in range(40)).encode(),
    "empty lines": b"\n\nOne.\n   \n\tTwo three.\n",
    "failing": f"One.\n{FAILING_WORD} at once\nTwo {FAILING_WORD} later\nThree four.\n".encode(),
    "no text": b"One.\nT\xff\nThree.\n",
    "nothing": b"\n \n",
    "cases": (CASES / "many_lines.txt").read_bytes(),
}


@pytest.mark.parametrize("parallel", ["2", "7"])
@pytest.mark.parametrize("options", [("--quiet",), ("--format", "s16"), ("--fail-fast",)])
@pytest.mark.parametrize("name", TEXTS)
def test_the_same_bytes_and_messages_as_one_by_one(
    qwen_tts: Run, name: str, options: tuple[str, ...], parallel: str
) -> None:
    one_by_one = qwen_tts(*LINES, *options, text=TEXTS[name])
    at_once = qwen_tts(*LINES, *options, "--parallel", parallel, text=TEXTS[name])
    assert at_once == one_by_one


def test_lines_are_reported_and_dumped(qwen_tts: Run, tmp_path: Path) -> None:
    options = ("-o", "-", "--stream-by-line", "--verbose", "--parallel", "4", "--dump", tmp_path)
    errors = qwen_tts(*options, text="One two.\n\nThree.\nFour.").stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["line-1", "line-3", "line-4"]
    assert [text for text in errors.splitlines() if "Line" in text] == [
        "[Pipeline] Line 1",
        "[Pipeline] Line 3",
        "[Pipeline] Line 4",
    ]
    assert errors.endswith("[Pipeline] Streamed 3 lines to <stdout>\n")


def test_a_long_text_is_handed_on(qwen_tts: Run, model: FakeModel, tmp_path: Path) -> None:
    assert qwen_tts("-o", tmp_path / "out.wav", "--parallel", "5").code == 0
    assert qwen_tts("-o", tmp_path / "out.wav").code == 0
    assert model.parallel == [5, 1]


@pytest.mark.parametrize("number", ["0", "-1", "many", "257"])
def test_how_many_at_once(qwen_tts: Run, number: str) -> None:
    result = qwen_tts("-o", "-", "--parallel", number)
    assert result.code == 2
    assert "--parallel" in result.stderr


@pytest.mark.parametrize("text", ["Hello there.\nHow are you?\nFine!\n" * 3, "Hello there. " * 12])
def test_the_demo_voice(text: str) -> None:
    pytest.importorskip("ggtts._native")
    arguments = ["-o", "-", "--quiet", "--seed", "5", "--max-new", "20", "--threads", "1"]
    if "\n" in text:
        arguments.append("--stream-by-line")

    def spoken(*options: str) -> bytes:
        with CliRunner().isolation(input=text.encode()) as (stdout, _, _):
            assert run(command, NAME, [*arguments, *options]) == 0
            return stdout.getvalue()

    assert spoken("--parallel", "4") == spoken()


def start(*arguments: str, seconds_per_frame: float, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Start `qwen-tts --parallel 3` with the humming model, line by line."""
    options = ("-o", "-", "--stream-by-line", "--quiet", "--parallel", "3", *arguments)
    return subprocess.Popen(
        [sys.executable, humming_tts.__file__, str(seconds_per_frame), *options],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@posix_only
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_though_more_lines_may_come(number: signal.Signals, code: int) -> None:
    process = start(seconds_per_frame=0.01)
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"One two three.\nFour.\n")
    process.stdin.flush()
    assert len(process.stdout.read(2000)) == 2000
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (code, b"")


@posix_only
def test_a_signal_leaves_nothing_of_a_real_model_behind() -> None:
    pytest.importorskip("ggtts._native")
    options = ("-o", "-", "--stream-by-line", "--quiet", "--parallel", "3", "--threads", "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "ggtts.cli.qwen_tts", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"Hello there.\n")
    process.stdin.flush()
    assert len(process.stdout.read(2000)) == 2000
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (130, b"")


@posix_only
def test_a_reader_that_leaves_ends_the_run_quietly() -> None:
    process = start(seconds_per_frame=0.002)
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"One two three four five six seven.\n" * 50)
    process.stdin.flush()
    assert len(process.stdout.read(100)) == 100
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, b"")


@posix_only
def test_a_line_is_heard_though_the_next_one_has_not_come() -> None:
    process = start(seconds_per_frame=0)
    assert process.stdin
    assert process.stdout
    for _ in range(3):
        process.stdin.write(b"One.\n")
        process.stdin.flush()
        size = 44 + 2 * 2 * 1920
        assert len(process.stdout.read(size)) == size
    process.stdin.close()
    process.stdin = None
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (0, b"", b"")


def test_lines_begin_before_they_are_asked_for_but_not_too_many() -> None:
    begun: list[int] = []
    reached = threading.Semaphore(0)

    def begin(line: Line) -> None:
        begun.append(line.number)
        reached.release()

    lines = [Line(number, "text") for number in range(1, 10)]
    with BegunLines(lines, begin, 3) as ahead:  # type: ignore[arg-type]
        asked = iter(ahead)
        assert next(asked).line.number == 1
        for _ in range(3):
            assert reached.acquire(timeout=PATIENCE)
        assert begun == [1, 2, 3]
        assert [one.line.number for one in asked] == list(range(2, 10))
        assert begun == list(range(1, 10))


def test_what_ends_the_lines_is_raised_behind_them() -> None:
    def lines() -> Iterator[Line]:
        yield Line(1, "One.")
        raise BrokenPipeError

    with BegunLines(lines(), lambda line: None, 8) as ahead:  # type: ignore[arg-type, return-value]
        asked = iter(ahead)
        assert next(asked).line.number == 1
        with pytest.raises(BrokenPipeError):
            next(asked)


def test_a_line_that_cannot_begin() -> None:
    def begin(line: Line) -> None:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        BegunLine.of(Line(1, "One."), begin).speech()  # type: ignore[arg-type]
