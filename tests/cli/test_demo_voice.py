"""`qwen-tts` for real: the packaged demo voice, from text on standard input to audio."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner
from ggtts.cli.errors import run
from ggtts.cli.qwen_tts import NAME, command
from support.data import DATA

pytest.importorskip("ggtts._native")

CASES = DATA / "cases"
Speak = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def speak() -> Speak:
    """Run the real command: `speak("-o", path, text=...)` -> exit code, standard output, standard error."""

    def invoke(*arguments: str | Path, text: str | bytes = "Hello there.") -> tuple[int, bytes, str]:
        data = text.encode() if isinstance(text, str) else text
        with CliRunner().isolation(input=data) as (stdout, stderr, _):
            code = run(command, NAME, [str(argument) for argument in arguments])
            return code, stdout.getvalue(), stderr.getvalue().decode()

    return invoke


def test_it_speaks(speak: Speak, tmp_path: Path) -> None:
    target = tmp_path / "out.wav"
    code, output, errors = speak("-o", target, "--seed", "1", text="Hello there, this is a small voice.")
    assert (code, output) == (0, b"")
    assert errors.count("\n") == 1
    samples, rate = soundfile.read(target)
    assert rate == 24_000
    assert 1.0 < len(samples) / rate < 5.0
    assert 0.02 < np.abs(samples).max() <= 1.0


def test_the_same_seed_gives_the_same_bytes_in_a_file_and_on_a_pipe(speak: Speak, tmp_path: Path) -> None:
    text = "Hello there. Good night."
    assert speak("-o", tmp_path / "out.wav", "--seed", "7", text=text)[0] == 0
    code, output, _ = speak("-o", "-", "--seed", "7", "--threads", "1", text=text)
    assert code == 0
    assert output[44:] == (tmp_path / "out.wav").read_bytes()[44:]
    assert speak("-o", "-", "--seed", "8", "--max-new", "3", text=text)[1][44:] != output[44 : 44 + 3 * 3840]


def test_the_reported_seed_repeats_a_random_run(speak: Speak) -> None:
    _, first, errors = speak("-o", "-", "--verbose", "--max-new", "6")
    seed = next(line.partition("seed=")[2] for line in errors.splitlines() if "seed=" in line)
    assert speak("-o", "-", "--seed", seed, "--max-new", "6")[1] == first


@pytest.mark.parametrize("name", ["three_sentences", "one_word", "interjection_zh", "symbols_only"])
def test_speech_ends_by_itself(speak: Speak, name: str) -> None:
    code, output, errors = speak("-o", "-", "--seed", "3", text=(CASES / f"{name}.txt").read_bytes())
    assert (code, errors.count("\n")) == (0, 1)
    seconds = (len(output) - 44) / 48_000
    assert 0.3 < seconds < 12


TEXTS = (
    *("blank_lines", "no_newline_at_end", "crlf", "bom_utf8", "bom_utf16le"),
    *("maths_and_kaomoji", "numbers_mixed", "mixed_languages", "emoji_and_marks"),
)


@pytest.mark.parametrize("name", TEXTS)
def test_reported_texts_are_spoken(speak: Speak, name: str) -> None:
    code, output, errors = speak("-o", "-", "--max-new", "4", text=(CASES / f"{name}.txt").read_bytes())
    assert code == 0, errors
    assert b"RIFF" not in output[44:]
    assert len(output) >= 44 + 2 * 1920


@pytest.mark.parametrize("name", ["many_lines", "no_punctuation_long", "long_chapter"])
def test_long_texts_are_cut_and_spoken_piece_by_piece(speak: Speak, name: str) -> None:
    """Each piece only begins, to save time: two frames of it."""
    text = (CASES / f"{name}.txt").read_bytes()
    code, output, errors = speak("-o", "-", "--max-new", "2", text=text)
    pieces = errors.count("cut off at the frame limit")
    assert code == 0, errors
    assert pieces >= len(text.split()) / 20
    assert len(output) == 44 + 2 * 2 * 1920 * pieces


def test_all_speakers_speak_and_differ(speak: Speak) -> None:
    names = speak("--list-speakers")[1].decode().split()
    voices = {speak("-o", "-", "--greedy", "--max-new", "4", "--speaker", name.upper())[1] for name in names}
    assert len(voices) == len(names) == 4
    assert speak("-o", "-", "--greedy", "--max-new", "4")[1] in voices


def test_languages(speak: Speak) -> None:
    assert speak("--list-languages")[1].decode().split() == ["auto", "english"]
    assert speak("-o", "-", "--lang", "ENGLISH", "--max-new", "2")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["--speaker", "Evan"], ["unknown speaker 'Evan'", "eva"]),
        (["--lang", "Klingonese"], ["unknown language 'Klingonese'", "english"]),
        (["--lang", "englsh"], ["did you mean english?"]),
        (["--device", "cuda77"], ["cuda77"]),
    ],
)
def test_unknown_names_are_errors(
    speak: Speak, tmp_path: Path, arguments: list[str], messages: list[str]
) -> None:
    code, output, errors = speak("-o", tmp_path / "out.wav", "--quiet", *arguments)
    assert (code, output) == (2, b"")
    assert errors.count("\n") == 1
    assert not [message for message in messages if message not in errors]
    assert not list(tmp_path.iterdir())


def test_files_that_are_no_models(speak: Speak, tmp_path: Path) -> None:
    from ggtts.core.qwen.demo import demo_paths

    talker, codec = demo_paths()
    short, foreign = tmp_path / "short.gguf", tmp_path / "foreign.gguf"
    short.write_bytes(talker.read_bytes()[: 1 << 20])
    foreign.write_bytes(b"RIFF" + bytes(100))
    target = tmp_path / "out.wav"
    for model, second in (
        (codec, talker),
        (talker, talker),
        (short, codec),
        (foreign, codec),
        (talker, foreign),
    ):
        code, _, errors = speak(
            "--model", model, "--codec", second, "-o", target, "--speaker", "eva", "--quiet"
        )
        assert code == 1, errors
        assert errors.count("\n") == 1
        assert "internal error" not in errors
        assert "gguf" in errors
    assert not target.exists()


def test_flac_holds_the_speech(speak: Speak) -> None:
    wave = soundfile.read(
        io.BytesIO(speak("-o", "-", "--seed", "2", "--max-new", "6", "--format", "wav24")[1])
    )[0]
    flac = soundfile.read(
        io.BytesIO(speak("-o", "-", "--seed", "2", "--max-new", "6", "--format", "flac")[1])
    )[0]
    assert np.abs(flac - wave).max() < 1e-6
