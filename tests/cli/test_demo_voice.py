"""`qwen-tts` for real: the packaged demo voice, from text on standard input to audio."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from ggtts.cli.errors import run
from ggtts.cli.qwen_tts import NAME, command
from ggtts.core.audio import wav
from ggtts.core.audio.formats import S16
from ggtts.core.formats.dump import read_dump
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


def test_flac_holds_the_speech(speak: Speak, tmp_path: Path) -> None:
    text = "Hello there. Good night to all of you."
    for name in ("out.wav", "out.flac"):
        kind = () if name.endswith("flac") else ("--format", "wav24")
        assert speak("-o", tmp_path / name, "--seed", "2", "--max-new", "6", *kind, text=text)[0] == 0
    wave, flac = (soundfile.read(tmp_path / name)[0] for name in ("out.wav", "out.flac"))
    assert len(flac) == len(wave)
    assert np.abs(flac - wave).max() < 1e-6


def test_the_way_it_is_cut_changes_nothing(speak: Speak, tmp_path: Path) -> None:
    text = "Hello there, you. " * 7  # two pieces
    base = ("--seed", "4", "--format", "f32", "--quiet")
    ways: list[tuple[str, ...]] = [
        (),
        ("--stream-frames", "1"),
        ("--stream-frames", "3"),
        ("--codec-chunk-dur", "0.5"),
    ]
    outputs = [speak("-o", "-", *base, *way, text=text)[1] for way in ways]
    target = tmp_path / "out.raw"
    assert speak("-o", target, *base, text=text)[0] == 0
    assert {*outputs, target.read_bytes()} == {outputs[0]}
    assert len(outputs[0]) > 4 * 4 * 24_000


def test_lines_are_spoken_one_by_one(speak: Speak) -> None:
    """A line sounds like the same text alone, and the reported files lose no line."""
    alone = [speak("-o", "-", "--seed", "6", text=text)[1] for text in ("Hello there.", "Good night.")]
    lines = ("-o", "-", "--stream-by-line", "--quiet", "--seed", "6")
    assert speak(*lines, text="Hello there.\n\nGood night.")[1] == b"".join(alone)
    for name in ("many_lines", "blank_lines", "no_newline_at_end", "crlf", "bom_utf8", "bom_utf16le"):
        code, output, errors = speak(*lines, "--max-new", "1", text=(CASES / f"{name}.txt").read_bytes())
        assert (code, errors.count("frame limit")) == (0, 0)
        assert output.count(b"RIFF") == len(output) / (44 + 2 * 1920), name


def test_what_the_guard_ends_is_kept(speak: Speak) -> None:
    """At that temperature the voice babbles on; the guard ends it, and without it the frame limit does."""
    wild = ("-o", "-", "--seed", "5", "--temp", "1e6", "--top-k", "0", "--max-new", "80")
    code, output, errors = speak(*wild, text="Oh")
    assert code == 0
    assert "did not end by itself" in errors
    assert 4 < (len(output) - 44) / 48_000 < 10
    code, output, errors = speak(*wild, "--no-guard", text="Oh")
    assert code == 0
    assert "frame limit" in errors
    assert len(output) == 44 + 80 * 2 * 1920


def test_the_stages_are_dumped(speak: Speak, tmp_path: Path) -> None:
    assert speak("-o", tmp_path / "out.wav", "--greedy", "--dump", tmp_path / "stages")[0] == 0
    names = {path.stem for path in (tmp_path / "stages").iterdir()}
    assert {"prompt-ids", "talker-input-embed", "talker-logits-prefill", "codes-step0", "codes-full"} <= names
    samples = read_dump(tmp_path / "stages" / "output-audio.bin")
    assert wav.encode_samples(samples, S16) == (tmp_path / "out.wav").read_bytes()[44:]


def test_other_arithmetic_says_the_same(speak: Speak) -> None:
    texts = [speak("-o", "-", "--greedy", *flags)[1] for flags in ((), ("--clamp-fp16",))]
    assert texts[0] == texts[1]
    assert len(speak("-o", "-", "--greedy", "--no-fa", "--kv-type", "f32")[1]) > 44 + 24_000
