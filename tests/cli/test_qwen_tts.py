"""`qwen-tts` with a model that hums: options, input, output, errors, reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ggtts.cli.qwen_options import SECTIONS
from ggtts.core.audio import wav
from ggtts.core.audio.formats import S16
from ggtts.core.errors import EngineError
from ggtts.core.formats.dump import read_dump
from support.data import DATA
from support.fake_model import SAMPLES_PER_FRAME, FakeModel, hum

Run = Callable[..., "Result"]  # noqa: F821 (of conftest.py)
CASES = DATA / "cases"


def test_speaks_into_a_file(qwen_tts: Run, model: FakeModel, tmp_path: Path) -> None:
    result = qwen_tts("-o", tmp_path / "out.wav", "--quiet", text="Hello there.\n")
    assert (result.code, result.stdout, result.stderr) == (0, b"", "")
    assert [request.text for request in model.requests] == ["Hello there."]
    samples = hum(0, 4 * SAMPLES_PER_FRAME)
    expected = wav.file_header(S16, 24_000, samples.size) + wav.encode_samples(samples, S16)
    assert (tmp_path / "out.wav").read_bytes() == expected


@pytest.mark.parametrize("text", ["Hello there.", (CASES / "three_sentences.txt").read_text("utf-8")])
def test_a_pipe_carries_the_samples_of_the_file(qwen_tts: Run, tmp_path: Path, text: str) -> None:
    qwen_tts("-o", tmp_path / "out.wav", text=text)
    result = qwen_tts("-o", "-", text=text)
    assert result.code == 0
    assert result.stdout[:44] == wav.stream_header(S16, 24_000)
    assert result.stdout[44:] == (tmp_path / "out.wav").read_bytes()[44:]


@pytest.mark.parametrize(
    ("arguments", "subtype"),
    [
        (["-o", "out.wav"], "PCM_16"),
        (["-o", "out.wav", "--format", "wav"], "PCM_16"),
        (["-o", "out.wav", "--format", "wav24"], "PCM_24"),
        (["-o", "out.wav", "--format", "wav32"], "FLOAT"),
        (["-o", "out.flac"], "PCM_24"),
        (["-o", "out.bin", "--format", "mp3"], "MPEG_LAYER_III"),
        (["-o", "out.ogg"], "VORBIS"),
        (["-o", "out.opus"], "OPUS"),
    ],
)
def test_formats(
    qwen_tts: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], subtype: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert qwen_tts(*arguments).code == 0
    assert soundfile.info(arguments[1]).subtype == subtype


def test_raw_output_has_no_header(qwen_tts: Run) -> None:
    result = qwen_tts("-o", "-", "--format", "s16")
    assert result.stdout == wav.encode_samples(hum(0, 4 * SAMPLES_PER_FRAME), S16)


def test_the_demo_voice_says_that_it_speaks(qwen_tts: Run, model: FakeModel, tmp_path: Path) -> None:
    result = qwen_tts("-o", tmp_path / "out.wav")
    assert result.stderr.count("\n") == 1
    assert "demo voice" in result.stderr
    assert model.opened == [
        (
            Path("demo-talker"),
            Path("demo-codec"),
            {
                **{"device": None, "threads": None, "kv_type": "f16"},
                **{"plain_attention": False, "clamp_fp16": False},
            },
        )
    ]


def test_all_options_reach_the_model(qwen_tts: Run, model: FakeModel, tmp_path: Path) -> None:
    talker, codec = tmp_path / "talker.gguf", tmp_path / "codec.gguf"
    talker.touch()
    codec.touch()
    result = qwen_tts(
        *("--model", talker, "--codec", codec, "-o", tmp_path / "out.wav", "--lang", "English"),
        *("--speaker", "eva", "--instruct", "softly", "--max-new", "3", "--seed", "-9223372036854775808"),
        *("--temp", "0.5", "--top-k", "0", "--top-p", "0.25", "--rep-pen", "1.5"),
        *("--sub-temp", "0.6", "--sub-top-k", "7", "--sub-top-p", "0.75"),
        *("--device", "cpu", "--threads", "2", "--kv-type", "f32", "--greedy"),
        *("--no-fa", "--clamp-fp16", "--codec-chunk-dur", "0", "--no-chunk", "--no-guard"),
    )
    assert result.code == 0
    options = {
        **{"device": "cpu", "threads": 2, "kv_type": "f32"},
        **{"plain_attention": True, "clamp_fp16": True},
    }
    assert model.opened == [(talker, codec, options)]
    request, sampling = model.requests[0], model.requests[0].sampling
    assert (request.language, request.speaker, request.instruct) == ("English", "eva", "softly")
    assert (request.max_frames, sampling.seed, sampling.greedy) == (3, 77, True)
    assert (request.guard, request.split, request.voice) == (False, False, None)
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.5, 0, 0.25)
    assert sampling.repetition_penalty == 1.5
    assert (sampling.sub_temperature, sampling.sub_top_k, sampling.sub_top_p) == (0.6, 7, 0.75)


def test_what_is_not_given_is_left_to_the_model_file(qwen_tts: Run, model: FakeModel, tmp_path: Path) -> None:
    qwen_tts("-o", tmp_path / "out.wav", "--seed", "5")
    request, sampling = model.requests[0], model.requests[0].sampling
    assert (request.guard, request.split) == (True, None)
    assert sampling.seed == 5
    assert sampling.temperature is sampling.top_k is sampling.top_p is sampling.repetition_penalty is None
    assert sampling.sub_temperature is sampling.sub_top_k is sampling.sub_top_p is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing option -o"),
        (["-o", "a.wav", "--format", "foo"], "'wav16', 'wav24', 'wav32'"),
        (["-o", "a.wav", "--format", "wav-16"], "wav16"),
        (["-o", "a.m4a"], r".wav"),
        (["-o", "a.wav", "--temp", "banana"], "not a valid number"),
        (["-o", "a.wav", "--temp", "-0.1"], "0 (greedy) or 1e-37 to 1e+37"),
        (["-o", "a.wav", "--temp", "nan"], "finite"),
        (["-o", "a.wav", "--temp", "inf"], "finite"),
        (["-o", "a.wav", "--top-p", "2"], "0<x<=1"),
        (["-o", "a.wav", "--top-p", "0"], "0<x<=1"),
        (["-o", "a.wav", "--sub-top-p", "1.01"], "0<x<=1"),
        (["-o", "a.wav", "--top-k", "-1"], "0<=x<=2147483647"),
        (["-o", "a.wav", "--top-k", "1.5"], "no whole number: 0<=x<=2147483647"),
        (["-o", "a.wav", "--rep-pen", "0"], "1e-06 to 1e+06"),
        (["-o", "a.wav", "--max-new", "0"], "1<=x<=2147483647"),
        (["-o", "a.wav", "--threads", "0"], "1<=x<=512"),
        (["-o", "a.wav", "--threads", "100000"], "1<=x<=512"),
        (["-o", "a.wav", "--seed", str(2**63)], "int64"),
        (["-o", "a.wav", "--kv-type", "q8"], "f16"),
        (["-o", "a.wav", "--model", "none.gguf", "--codec", "none.gguf"], "does not exist"),
        (["-o", "a.wav", "--no-such"], "No such option"),
        (["-o", "a.wav", "Hello there."], "unexpected 'Hello there.': the text comes on standard input"),
        (["-o"], "requires an argument"),
        (["-o", "a.wav", "--quiet", "--verbose"], "exclude each other"),
        (["-o", "a.wav", "--stream-by-line"], "--stream-by-line needs -o -"),
        (["-o", "-", "--fail-fast"], "--fail-fast needs --stream-by-line"),
        (["-o", "-", "--stream-frames", "0"], "1<=x<=2147483647"),
        (["-o", "-", "--codec-chunk-dur", "-1"], "0<=x<=86400"),
        (["-o", "a.wav", "--model", __file__], "--model needs --codec"),
        (["-o", "a.wav", "--codec", __file__], "--codec needs --model"),
    ],
)
def test_usage_errors(
    qwen_tts: Run,
    model: FakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = qwen_tts(*arguments)
    assert result.code == 2
    assert result.stderr.startswith("qwen-tts: error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert not model.opened
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", ["none/out.wav", "folder"])
def test_an_output_that_cannot_be_written_is_seen_before_anything_is_loaded(
    qwen_tts: Run, model: FakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    result = qwen_tts("-o", output)
    assert result.code == 1
    assert "cannot write" in result.stderr
    assert not model.opened


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("empty", 2, "nothing to say"),
        ("whitespace_only", 2, "nothing to say"),
        ("bad_utf8", 1, "byte offset"),
        ("nul_inside", 1, "byte offset"),
    ],
)
@pytest.mark.parametrize("output", ["out.wav", "-"])
def test_texts_that_cannot_be_spoken(
    qwen_tts: Run,
    model: FakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    code: int,
    message: str,
    output: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = qwen_tts("-o", output, text=(CASES / f"{name}.txt").read_bytes())
    assert (result.code, result.stdout) == (code, b"")
    assert message in result.stderr
    assert not model.opened
    assert not list(tmp_path.iterdir())


SPOKEN_CASES = (
    *("three_sentences", "many_lines", "blank_lines", "no_newline_at_end", "crlf", "bom_utf8", "one_word"),
    *("interjection_zh", "symbols_only", "maths_and_kaomoji", "numbers_mixed", "mixed_languages"),
    *("emoji_and_marks", "no_punctuation_long", "long_chapter"),
)


@pytest.mark.parametrize("name", SPOKEN_CASES)
def test_every_word_of_the_reported_texts_is_spoken(
    qwen_tts: Run, model: FakeModel, tmp_path: Path, name: str
) -> None:
    data = (CASES / f"{name}.txt").read_bytes()
    assert qwen_tts("-o", tmp_path / "out.wav", text=data).code == 0
    words = data.decode("utf-8-sig").split()
    assert [request.text.split() for request in model.requests] == [words]
    assert soundfile.info(tmp_path / "out.wav").frames == 2 * SAMPLES_PER_FRAME * len(words)


def test_utf16_is_read_as_text(qwen_tts: Run, model: FakeModel, tmp_path: Path) -> None:
    data = (CASES / "bom_utf16le.txt").read_bytes()
    assert qwen_tts("-o", tmp_path / "out.wav", text=data).code == 0
    assert model.requests[0].text == data.decode("utf-16").strip()


@pytest.mark.parametrize("output", ["out.wav", "-"])
def test_a_model_that_says_nothing_is_a_failure(
    qwen_tts: Run, model: FakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.chdir(tmp_path)
    model.silent = True
    result = qwen_tts("-o", output, "--quiet")
    assert (result.code, result.stdout) == (1, b"")
    assert result.stderr.startswith("qwen-tts: error: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (EngineError("device cuda7\nis not there"), 1, "qwen-tts: error: device cuda7 is not there\n"),
        (MemoryError(), 1, "qwen-tts: error: out of memory\n"),
        (ValueError("odd"), 1, "internal error, please report it: ValueError: odd"),
    ],
)
@pytest.mark.parametrize("output", ["out.wav", "-"])
def test_a_failure_is_one_line_and_leaves_nothing(
    qwen_tts: Run,
    model: FakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception,
    code: int,
    message: str,
    output: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    model.failure = failure
    result = qwen_tts("-o", output, "--quiet")
    assert (result.code, result.stdout) == (code, b"")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_verbose_prints_times_and_the_seed(qwen_tts: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.wav"
    result = qwen_tts("-o", target, "--verbose")
    for line in (
        "[Sample] seed=77",
        "[Perf] FirstAudio ",
        "[Pipeline] Generation done : 4 frames",
        "[Perf] Prefill 100.0 ms",
        "[Perf] TalkerDecode 100.0 ms (4 frames, 25.00 ms/frame)",
        "[Perf] Total 100.0 ms (4 frames, 75.00 ms/frame AR, audio 0.32 s, RTF 0.312)",
        f"[Pipeline] Wrote 7680 samples (0.32 s) -> {target}",
    ):
        assert line in result.stderr
    assert "[Pipeline] Streamed to <stdout>" in qwen_tts("-o", "-", "--verbose").stderr


def test_dump_hands_the_stages_to_files(qwen_tts: Run, tmp_path: Path) -> None:
    qwen_tts("-o", tmp_path / "out.wav", "--dump", tmp_path / "one" / "folder", text="Hello there.")
    assert read_dump(tmp_path / "one" / "folder" / "codes-full.bin").shape == (4, 16)
    qwen_tts("-o", tmp_path / "out.wav", "--dump", tmp_path / "many", text="This is a sentence. " * 10)
    assert sorted(path.name for path in (tmp_path / "many").iterdir()) == ["1", "2"]
    result = qwen_tts("-o", "-", "--dump", tmp_path / "one" / "folder" / "codes-full.bin" / "x", "--quiet")
    assert result.code == 1
    assert "cannot make folder" in result.stderr


def test_chunks_are_short_on_a_pipe_and_long_in_a_file(
    qwen_tts: Run, model: FakeModel, tmp_path: Path
) -> None:
    text = "word " * 19
    for arguments in (
        ("-o", "-"),
        ("-o", "-", "--stream-frames", "2"),
        ("-o", "-", "--stream-frames", "64", "--codec-chunk-dur", "0.4"),
        ("-o", tmp_path / "out.wav"),
        ("-o", tmp_path / "out.wav", "--codec-chunk-dur", "1"),
    ):
        qwen_tts(*arguments, text=text)
    assert [max(stream.chunk_frames) for stream in model.streams] == [4, 2, 5, 16, 13]


def test_lists(qwen_tts: Run) -> None:
    for flag, names in (("--list-speakers", b"adam\neva\n"), ("--list-languages", b"auto\nenglish\n")):
        result = qwen_tts(flag)
        assert (result.code, result.stdout, result.stderr) == (0, names, "")


def test_help_lists_every_option(qwen_tts: Run) -> None:
    result = qwen_tts("--help")
    assert result.code == qwen_tts("-h").code == 0
    documented = (
        "--model --codec -o --format --lang --instruct --speaker --ref-wav --ref-spk --ref-rvq --ref-text --max-new "
        "--codec-chunk-dur --stream-by-line --seed --greedy --temp --top-k --top-p --rep-pen --sub-temp --sub-top-k "
        "--sub-top-p --no-fa --clamp-fp16 --dump --device --threads --kv-type --quiet --verbose --list-speakers "
        "--list-languages --list-devices --version --no-chunk --no-guard --fail-fast --stream-frames"
    )
    text = result.stdout.decode()
    assert not [flag for flag in documented.split() if flag not in text]
    assert [line for line in text.splitlines() if line.endswith(":") and line[0] != " "] == [
        *(f"{title}:" for title in SECTIONS),
        "Other:",
    ]


def test_version(qwen_tts: Run) -> None:
    result = qwen_tts("--version")
    assert result.code == 0
    assert result.stdout.startswith(b"qwen-tts ")


def test_samples_written_never_wrap(qwen_tts: Run, model: FakeModel) -> None:
    data = qwen_tts("-o", "-", "--format", "s16", text="word " * 19).stdout
    samples = np.frombuffer(data, "<i2")
    assert np.abs(np.diff(samples.astype(int))).max() < 3000
