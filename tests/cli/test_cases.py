"""Texts that other tools stumbled over, from a real process's standard input to audio of the packaged demo voice.

What each text is about, and the right outcome, is in tests/data/cases/README.md.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from ggtts.cli.errors import run
from ggtts.cli.qwen_tts import NAME, command
from support.data import DATA
from support.patience import PATIENCE

CASES = DATA / "cases"
PROGRAM = (sys.executable, "-m", "ggtts.cli.qwen_tts")
HEADER_SIZE = 44
SAMPLE_SIZE = 2
RATE = 24_000
FRAME = 1920
WORDS_PER_PIECE = 20
"""Greatest length of what the demo voice speaks at once."""
SEED = ("--seed", "11")


@dataclass(frozen=True)
class Ended:
    """What a process left behind."""

    code: int
    output: bytes
    errors: str


def qwen_tts(*arguments: str | Path, text: bytes) -> Ended:
    """Run `qwen-tts` as a shell would, with `text` on a pipe and a pipe to write to."""
    ended = subprocess.run(
        [*PROGRAM, *map(str, arguments)], input=text, capture_output=True, timeout=PATIENCE
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr.decode())


def qwen_tts_here(*arguments: str | Path, text: bytes) -> Ended:
    """Run `qwen-tts` in this process, which is quicker."""
    with CliRunner().isolation(input=text) as (stdout, stderr, _):
        code = run(command, NAME, list(map(str, arguments)))
        return Ended(code, stdout.getvalue(), stderr.getvalue().decode())


def case(name: str) -> bytes:
    """The bytes of a reported text."""
    return (CASES / f"{name}.txt").read_bytes()


def samples_of_stream(output: bytes) -> np.ndarray:
    """Check that a stream is one WAV header and samples, and return them [n]."""
    assert output[:4] + output[8:12] == b"RIFFWAVE"
    assert output.count(b"RIFF") == 1
    return np.frombuffer(output[HEADER_SIZE:], "<i2")


def samples_of_file(path: Path) -> np.ndarray:
    """Check that a file is exactly what its header says, as two readers understand it; return the samples [n]."""
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, SAMPLE_SIZE, RATE)
        data = file.readframes(file.getnframes())
    assert path.stat().st_size == HEADER_SIZE + len(data)
    samples, rate = soundfile.read(path, dtype="int16")
    assert (rate, samples.tobytes()) == (RATE, data)
    return samples


SECONDS = {
    "three_sentences": (5, 9),
    "blank_lines": (2, 5),
    "no_newline_at_end": (1, 3),
    "crlf": (2, 5),
    "bom_utf8": (1.5, 4),
    "bom_utf16le": (1.5, 5),
    "one_word": (0.3, 2),
    "interjection_zh": (0.3, 6),
    "symbols_only": (0.3, 6),
    "maths_and_kaomoji": (1, 16),
    "numbers_mixed": (3, 16),
    "mixed_languages": (1, 16),
    "emoji_and_marks": (1, 16),
}
"""Least and greatest length of what is said: all of the text, and an end by itself."""


@pytest.mark.parametrize("name", SECONDS)
def test_a_pipe_and_a_file_get_all_of_the_text(tmp_path: Path, name: str) -> None:
    target = tmp_path / "out.wav"
    piped = qwen_tts("-o", "-", *SEED, text=case(name))
    written = qwen_tts_here("-o", target, *SEED, text=case(name))
    assert (piped.code, written.code, written.output) == (0, 0, b"")
    samples = samples_of_stream(piped.output)
    assert np.array_equal(samples, samples_of_file(target))
    assert [path.name for path in tmp_path.iterdir()] == ["out.wav"]
    least, most = SECONDS[name]
    assert least < len(samples) / RATE < most
    assert 300 < np.abs(samples.astype(int)).max() < 2**15 - 1
    assert piped.errors == written.errors
    assert piped.errors.count("\n") == 1, "a note that the demo voice speaks, and no warning"


def test_every_line_comes_out_of_a_pipe() -> None:
    ended = qwen_tts("-o", "-", *SEED, text=case("many_lines"))
    assert (ended.code, ended.errors.count("\n")) == (0, 1)
    assert 20 < len(samples_of_stream(ended.output)) / RATE < 45


def test_a_text_without_punctuation_is_spoken_piece_by_piece(tmp_path: Path) -> None:
    """Each piece only begins, to save time: two frames of it, and a warning that there is more."""
    target, text = tmp_path / "out.wav", case("no_punctuation_long")
    short = (*SEED, "--max-new", "2")
    piped = qwen_tts("-o", "-", *short, text=text)
    written = qwen_tts_here("-o", target, *short, text=text)
    assert (piped.code, written.code) == (0, 0)
    samples = samples_of_stream(piped.output)
    assert np.array_equal(samples, samples_of_file(target))
    assert len(samples) >= 2 * FRAME * len(text.split()) / WORDS_PER_PIECE
    assert "frame limit" in piped.errors


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bom_utf8", "A byte order mark stands before this text."),
        ("bom_utf16le", None),
        ("crlf", "First line with a carriage return.\nSecond line too."),
        ("blank_lines", None),
        ("no_newline_at_end", "A last line without a newline\n"),
    ],
)
@pytest.mark.parametrize("way", ["whole", "--stream-by-line"])
def test_how_a_text_is_stored_is_not_heard(name: str, text: str | None, way: str) -> None:
    """The same samples as for the words in plain UTF-8, each line ended by a newline."""
    arguments = ("-o", "-", *SEED, "--max-new", "12", "--quiet", *(() if way == "whole" else (way,)))
    encoding = "utf-16" if name == "bom_utf16le" else "utf-8"
    plain = text or case(name).decode(encoding).strip()
    stored, expected = (qwen_tts_here(*arguments, text=data) for data in (case(name), plain.encode()))
    assert (stored.code, stored.output) == (0, expected.output)
    assert len(stored.output) > HEADER_SIZE + SAMPLE_SIZE * FRAME


def test_the_language_is_honoured() -> None:
    """The language that is named reaches the prompt, and one that the voice does not speak is refused."""
    short = ("-o", "-", *SEED, "--max-new", "8", "--quiet")
    guessed, named, refused = (
        qwen_tts_here(*short, "--lang", language, text=case("numbers_mixed"))
        for language in ("auto", "English", "German")
    )
    assert (guessed.code, named.code) == (0, 0)
    assert len(samples_of_stream(named.output)) == 8 * FRAME
    assert named.output != guessed.output
    assert (refused.code, refused.output) == (2, b"")
    assert "unknown language 'German'" in refused.errors
    assert "english" in refused.errors


SILENT = {
    "empty": (2, "nothing to say"),
    "whitespace_only": (2, "nothing to say"),
    "bad_utf8": (1, "byte offset 31"),
    "nul_inside": (1, "byte offset 23"),
}


@pytest.mark.parametrize("name", SILENT)
def test_texts_that_cannot_be_spoken_are_refused_before_a_model_is_loaded(tmp_path: Path, name: str) -> None:
    """The model files here are none, which would be the error if they were opened."""
    foreign, target = tmp_path / "foreign.gguf", tmp_path / "out.wav"
    foreign.write_bytes(b"no model")
    target.write_bytes(b"an earlier recording")
    model = ("--model", foreign, "--codec", foreign)
    code, message = SILENT[name]
    for output in ("-", target):
        ended = qwen_tts(*model, "-o", output, text=case(name))
        assert (ended.code, ended.output) == (code, b"")
        assert ended.errors.startswith("qwen-tts: error: ")
        assert ended.errors.count("\n") == 1
        assert message in ended.errors
    assert target.read_bytes() == b"an earlier recording"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign.gguf", "out.wav"]


def test_a_failure_keeps_what_was_there(tmp_path: Path) -> None:
    """A file is replaced by complete speech or not at all."""
    target = tmp_path / "out.wav"
    target.write_bytes(b"an earlier recording")
    ended = qwen_tts_here("-o", target, "--speaker", "nobody", text=case("three_sentences"))
    assert ended.code == 2
    assert target.read_bytes() == b"an earlier recording"
    assert [path.name for path in tmp_path.iterdir()] == ["out.wav"]


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="asks POSIX for the memory of a process")
def test_a_chapter_takes_no_more_memory_than_a_sentence(tmp_path: Path) -> None:
    """Some hundred pieces of four frames against one of four frames."""
    target, chapter = tmp_path / "out.wav", case("long_chapter")
    short = peak_bytes(target, case("one_word"))
    long = peak_bytes(target, chapter)
    assert len(samples_of_file(target)) >= 4 * FRAME * len(chapter.split()) / WORDS_PER_PIECE
    assert long < short + 16 * 2**20


def peak_bytes(target: Path, text: bytes) -> int:
    """Return the largest resident memory of a process that speaks `text` into a file, four frames of each piece."""
    arguments = ("-o", str(target), *SEED, "--max-new", "4", "--quiet")
    process = subprocess.Popen([*PROGRAM, *arguments], stdin=subprocess.PIPE)
    assert process.stdin
    process.stdin.write(text)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def test_the_stream_is_what_players_read() -> None:
    """The header of a stream does not know its length; readers take what comes."""
    ended = qwen_tts_here("-o", "-", *SEED, "--max-new", "4", text=case("one_word"))
    samples, rate = soundfile.read(io.BytesIO(ended.output), dtype="int16")
    assert rate == RATE
    assert np.array_equal(samples, samples_of_stream(ended.output))
