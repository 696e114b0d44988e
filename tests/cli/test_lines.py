"""`qwen-tts --stream-by-line` with a model that hums: one utterance and one header for each line."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from ggtts.core.audio import wav
from ggtts.core.audio.formats import S16
from support.data import DATA
from support.fake_model import FAILING_WORD, FIRST_RANDOM_SEED, SAMPLES_PER_FRAME, FakeModel, hum

Run = Callable[..., "Result"]  # noqa: F821 (of conftest.py)
CASES = DATA / "cases"
LINES = ("-o", "-", "--stream-by-line", "--quiet")


def spoken(*words: int) -> bytes:
    """Each utterance of that many words, as a stream of its own."""
    return b"".join(
        wav.stream_header(S16, 24_000) + wav.encode_samples(hum(0, 2 * count * SAMPLES_PER_FRAME), S16)
        for count in words
    )


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("One two.\nThree.\n", ["One two.", "Three."]),
        ("\n\n One two. \n   \n\t\nThree.\n\n", ["One two.", "Three."]),
        ("One two.\r\nThree.", ["One two.", "Three."]),
        (b"\xef\xbb\xbfOne two.\nThree.\n", ["One two.", "Three."]),
        (b"\xff\xfe" + "One twö.\nThree.\n".encode("utf-16-le"), ["One twö.", "Three."]),
        ("\u200b\n\ufeff\nOne two.\n\u00a0\nThree.", ["One two.", "Three."]),
    ],
)
def test_each_line_is_an_utterance(
    qwen_tts: Run, model: FakeModel, text: str | bytes, texts: list[str]
) -> None:
    result = qwen_tts(*LINES, text=text)
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout == spoken(2, 1)
    assert [request.text for request in model.requests] == texts


@pytest.mark.parametrize(
    "name", ["three_sentences", "many_lines", "blank_lines", "no_newline_at_end", "crlf", "bom_utf8"]
)
def test_reported_texts_are_spoken_line_by_line(qwen_tts: Run, model: FakeModel, name: str) -> None:
    data = (CASES / f"{name}.txt").read_bytes()
    result = qwen_tts(*LINES, text=data)
    lines = [line.strip() for line in data.decode("utf-8-sig").splitlines() if line.strip()]
    assert result.code == 0
    assert [request.text for request in model.requests] == lines
    assert result.stdout == spoken(*(len(line.split()) for line in lines))


def test_utf16_is_read_as_text(qwen_tts: Run, model: FakeModel) -> None:
    data = (CASES / "bom_utf16le.txt").read_bytes()
    assert qwen_tts(*LINES, text=data).code == 0
    assert [request.text for request in model.requests] == data.decode("utf-16").split("\n")[:-1]


@pytest.mark.parametrize(
    "text", ["", "\n", " \t\n\n", (CASES / "whitespace_only.txt").read_bytes(), "\ufeff"]
)
def test_nothing_to_say_is_an_error_before_anything_is_loaded(
    qwen_tts: Run, model: FakeModel, text: str | bytes
) -> None:
    result = qwen_tts(*LINES, text=text)
    assert (result.code, result.stdout) == (2, b"")
    assert "nothing to say" in result.stderr
    assert not model.opened


@pytest.mark.parametrize("bad", [b"four \xff", b"fo\0ur"])
def test_a_line_that_is_no_text_is_reported_and_the_next_one_goes_on(qwen_tts: Run, bad: bytes) -> None:
    result = qwen_tts(*LINES, text=b"One two.\n" + bad + b"\nThree.\n")
    assert (result.code, result.stdout) == (1, spoken(2, 1))
    first, last = result.stderr.splitlines()
    assert first.startswith("qwen-tts: error: line 2: standard input: ")
    assert "byte offset" in first
    assert last == "qwen-tts: error: 1 of 3 lines could not be spoken"


@pytest.mark.parametrize("name", ["bad_utf8", "nul_inside"])
def test_reported_inputs_that_are_no_text(qwen_tts: Run, model: FakeModel, name: str) -> None:
    data = (CASES / f"{name}.txt").read_bytes()
    result = qwen_tts(*LINES, text=data)
    assert result.code == 1
    assert "byte offset" in result.stderr
    assert len(model.requests) == data.count(b"\n") - 1
    assert qwen_tts(*LINES, "--fail-fast", text=data).stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "data", "told"),
    [
        ((), b"\xff\n", ["line 1: ", "1 of 1 lines could not be spoken"]),
        ((), b"\n\xff\n\xfe", ["line 2: ", "line 3: ", "2 of 2 lines could not be spoken"]),
        (("--fail-fast",), b"\xff\nTwo.\n", ["line 1: "]),
    ],
)
def test_what_cannot_be_spoken_at_all_is_told_before_anything_is_loaded(
    qwen_tts: Run, model: FakeModel, flags: tuple[str, ...], data: bytes, told: list[str]
) -> None:
    result = qwen_tts(*LINES, *flags, text=data)
    assert (result.code, result.stdout) == (1, b"")
    lines = result.stderr.splitlines()
    assert len(lines) == len(told)
    assert all(line.startswith(f"qwen-tts: error: {text}") for line, text in zip(lines, told, strict=True))
    assert not model.opened


def test_a_fixed_seed_is_that_of_each_line_and_a_random_one_is_drawn_anew(
    qwen_tts: Run, model: FakeModel
) -> None:
    qwen_tts(*LINES, "--seed", "5", text="a\nb\nc")
    qwen_tts(*LINES, text="a\nb\n")
    seeds = [request.sampling.seed for request in model.requests]
    assert seeds == [5, 5, 5, FIRST_RANDOM_SEED + 3, FIRST_RANDOM_SEED + 4]


def test_a_failing_line_is_reported_and_the_next_one_goes_on(qwen_tts: Run, model: FakeModel) -> None:
    text = f"One.\n\n{FAILING_WORD} at once\nTwo {FAILING_WORD} later\nThree four.\n"
    result = qwen_tts(*LINES, text=text)
    assert result.code == 1
    assert result.stderr.splitlines() == [
        "qwen-tts: error: line 3: the device broke down",
        "qwen-tts: error: line 4: the device broke down",
        "qwen-tts: error: 2 of 4 lines could not be spoken",
    ]
    # The frame that came before the break was heard; a line without sound has no header.
    begun = wav.stream_header(S16, 24_000) + wav.encode_samples(hum(0, SAMPLES_PER_FRAME), S16)
    assert result.stdout == spoken(1) + begun + spoken(2)
    assert all(stream.closed for stream in model.streams)


def test_a_failing_line_can_end_the_run(qwen_tts: Run, model: FakeModel) -> None:
    result = qwen_tts(*LINES, "--fail-fast", text=f"One.\n{FAILING_WORD}\nThree.\n")
    assert (result.code, result.stdout) == (1, spoken(1))
    assert result.stderr == "qwen-tts: error: line 2: the device broke down\n"
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (ValueError("odd"), "line 1: internal error, please report it: ValueError: odd"),
        (MemoryError(), "line 1: out of memory"),
    ],
)
def test_a_defect_is_the_failure_of_its_line(
    qwen_tts: Run, model: FakeModel, failure: Exception, message: str
) -> None:
    model.failure = failure
    result = qwen_tts(*LINES, text="One.\n")
    assert (result.code, result.stdout) == (1, b"")
    assert message in result.stderr


def test_a_line_without_sound_has_failed(qwen_tts: Run, model: FakeModel) -> None:
    model.silent = True
    result = qwen_tts(*LINES, text="One.\n")
    assert (result.code, result.stdout) == (1, b"")
    assert "line 1: the model ended before it said anything" in result.stderr


def test_what_is_wrong_with_every_line_is_said_once(qwen_tts: Run, model: FakeModel) -> None:
    result = qwen_tts(*LINES, "--speaker", "evan", text="One.\nTwo.\n")
    assert (result.code, result.stdout) == (2, b"")
    assert result.stderr == "qwen-tts: error: unknown speaker 'evan'\n"
    assert not model.requests


def test_encoded_lines_are_complete_streams(qwen_tts: Run) -> None:
    data = qwen_tts(*LINES, "--format", "ogg", text="One two.\nThree.\n").stdout
    second = data.index(b"OggS\0\x02", 1)
    lengths = [len(soundfile.read(io.BytesIO(part))[0]) for part in (data[:second], data[second:])]
    assert lengths == [4 * SAMPLES_PER_FRAME, 2 * SAMPLES_PER_FRAME]


def test_raw_lines_are_samples_alone(qwen_tts: Run) -> None:
    data = qwen_tts(*LINES, "--format", "s16", text="One two.\nThree.\n").stdout
    assert data == spoken(2)[44:] + spoken(1)[44:]


def test_each_line_is_dumped_and_reported(qwen_tts: Run, tmp_path: Path) -> None:
    options = ("-o", "-", "--stream-by-line", "--verbose", "--dump", tmp_path)
    errors = qwen_tts(*options, text="One two.\n\nThree.\n").stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["line-1", "line-3"]
    assert errors.count("[Perf] FirstAudio") == errors.count("[Pipeline] Line ") == 2
    assert errors.endswith("[Pipeline] Streamed 2 lines to <stdout>\n")
