"""`qwen-codec` with a tiny codec: names, directions, formats, folders, errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from ggtts.cli.errors import run
from ggtts.cli.qwen_codec import NAME, Services, command
from ggtts.core.formats import rvq, spk
from support.comparing import deviation
from support.data import DATA, TALKERS, load_golden
from support.tolerances import SPEAKER_EMBEDDING, WAVEFORM

Run = Callable[..., tuple[int, bytes, str]]
RECORDINGS = DATA / "golden" / "audio"
CODES = np.random.default_rng(0).integers(0, 64, (5, 16))


@pytest.fixture
def codec_run(tiny_gguf: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`codec_run("-i", path, data=b"")` in an empty folder -> exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    tiny = tiny_gguf()

    def invoke(
        *arguments: str | Path,
        data: bytes = b"",
        services: Services | None = None,
        model: Path | None = tiny,
    ) -> tuple[int, bytes, str]:
        line = [*(["--model", str(model)] if model else []), *map(str, arguments)]
        with CliRunner().isolation(input=data) as (stdout, stderr, _):
            code = run(command, NAME, line, services)
            return code, stdout.getvalue(), stderr.getvalue().decode()

    return invoke


def recording(name: str | Path, seconds: float = 0.2, **options: Any) -> Path:
    """Write noise to a file in the current folder."""
    samples = np.random.default_rng(1).uniform(-0.5, 0.5, int(seconds * 24_000))
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(name, samples, 24_000, **options)
    return Path(name)


def codes_file(name: str | Path, codes: np.ndarray = CODES) -> Path:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    rvq.write(Path(name), codes)
    return Path(name)


def files(folder: str | Path = ".") -> list[str]:
    """All files below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("file", "case"),
    [("ref_24k", "0.6B-Base_icl_full"), ("ref_44k1_stereo", "0.6B-Base_icl_stream_longtext")],
)
def test_a_recording_becomes_codes_and_a_voice(
    codec_run: Run, tiny_gguf: Callable[..., Path], file: str, case: str
) -> None:
    Path("clip.wav").write_bytes((RECORDINGS / f"{file}.wav").read_bytes())
    assert codec_run("-i", "clip.wav", "--talker", tiny_gguf(TALKERS[0])) == (0, b"", "")
    assert files() == ["clip.rvq", "clip.spk", "clip.wav"]
    golden = load_golden(case)
    assert (rvq.read(Path("clip.rvq")) == golden["ref_codes"]).all()
    assert deviation(spk.read(Path("clip.spk")), golden["ref_xvector"]) < SPEAKER_EMBEDDING


def test_codes_become_audio(codec_run: Run) -> None:
    golden = load_golden("codec_decode_window")
    codes_file("clip.rvq", golden["codes"])
    assert codec_run("-i", "clip.rvq", "--format", "wav32") == (0, b"", "")
    samples, rate = soundfile.read("clip.wav", dtype="float32")
    assert rate == 24_000
    assert np.abs(samples - golden["wav"]).max() < WAVEFORM


@pytest.mark.parametrize(
    ("arguments", "output", "subtype"),
    [
        ([], "clip.wav", "PCM_16"),
        (["--format", "wav"], "clip.wav", "PCM_16"),
        (["--format", "wav24"], "clip.wav", "PCM_24"),
        (["--format", "wav32"], "clip.wav", "FLOAT"),
        (["--format", "flac"], "clip.flac", "PCM_24"),
        (["--format", "mp3"], "clip.mp3", "MPEG_LAYER_III"),
        (["--format", "ogg"], "clip.ogg", "VORBIS"),
        (["--format", "opus"], "clip.opus", "OPUS"),
        (["-o", "copy.flac"], "copy.flac", "PCM_24"),
        (["-o", "copy"], "copy", "PCM_16"),
    ],
)
def test_round_trip(codec_run: Run, arguments: list[str], output: str, subtype: str) -> None:
    """Audio to codes to audio of every format, to codes again."""
    recording("clip.WAV")
    assert codec_run("-i", "clip.WAV")[0] == 0
    assert codec_run("-i", "clip.rvq", *arguments)[0] == 0
    assert soundfile.info(output).subtype == subtype
    assert soundfile.info(output).duration == pytest.approx(0.24, abs=0.15)
    assert codec_run("-i", output, "--encode", "-o", "again.rvq")[0] == 0
    assert abs(len(rvq.read(Path("again.rvq"))) - 3) <= 2


def test_headerless_formats(codec_run: Run) -> None:
    codes_file("clip.rvq")
    assert codec_run("clip.rvq", "--format", "s16")[0] == 0
    assert Path("clip.raw").stat().st_size == 2 * 5 * 1920
    assert codec_run("clip.rvq", "-o", "-", "--format", "f32")[1][:4] != b"RIFF"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("clip.flac", {}),
        ("clip.mp3", {}),
        ("clip.aiff", {}),
        ("clip.ogg", {}),
        ("clip", {"format": "WAV"}),
        ("clip.tape", {"format": "CAF"}),
        ("CLIP.WAV", {"subtype": "PCM_U8"}),
        ("clip.with.dots.wav", {}),
    ],
)
def test_any_audio_is_encoded(codec_run: Run, name: str, options: dict[str, str]) -> None:
    recording(name, **options)
    assert codec_run(name) == (0, b"", "")
    assert files() == sorted([name, f"{name.rpartition('.')[0] or name}.rvq"])


def test_the_last_partial_frame_is_kept(codec_run: Run) -> None:
    recording("clip.wav", 5.25 * 0.08)
    assert codec_run("clip.wav")[0] == 0
    assert len(rvq.read(Path("clip.rvq"))) == 6


def test_upper_case_codes(codec_run: Run) -> None:
    codes_file("CLIP.RVQ")
    assert codec_run("CLIP.RVQ")[0] == 0
    assert files() == ["CLIP.RVQ", "CLIP.wav"]


def test_pipes_both_ways(codec_run: Run) -> None:
    recording("clip.wav")
    codec_run("-i", "clip.wav")
    code, codes, _ = codec_run("-i", "-", data=Path("clip.wav").read_bytes())
    assert (code, codes) == (0, Path("clip.rvq").read_bytes())
    assert codec_run("-i", "clip.wav", "-o", "-")[1] == codes
    code, audio, _ = codec_run("-", "-o", "-", data=codes)
    assert codec_run("-i", "clip.rvq", "-o", "copy.wav")[0] == code == 0
    assert audio[44:] == Path("copy.wav").read_bytes()[44:]
    assert codec_run("-i", "-", "-o", "piped.rvq", data=audio)[0] == 0  # with the sizes of a live header
    assert len(rvq.read(Path("piped.rvq"))) == 3


def test_what_might_be_mp3_has_to_be_named(codec_run: Run) -> None:
    recording("clip.mp3")
    data = Path("clip.mp3").read_bytes()
    code, output, errors = codec_run("-", data=data)
    assert (code, output) == (2, b"")
    assert "may be MP3 or codes: add --encode or --decode" in errors
    assert len(codec_run("-", "--encode", data=data)[1]) % 22 == 0
    assert codec_run("-", "-o", "clip.rvq", data=data)[0] == 0
    codes = codes_file("first.rvq", np.full((2, 16), 63)).read_bytes()
    assert codec_run("-", "--decode", data=codes)[0] == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes of POSIX")
def test_a_named_pipe_is_a_pipe(codec_run: Run) -> None:
    recording("clip.wav")
    codec_run("clip.wav")
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(Path("clip.wav").read_bytes()))
    writer.start()
    code, output, _ = codec_run("pipe")
    writer.join()
    assert (code, output) == (0, Path("clip.rvq").read_bytes())


def test_folders_and_several_files(codec_run: Run) -> None:
    for name in ("b.wav", "in/a.wav", "in/deep/c.FLAC", "in/.hidden.wav", "in/notes.txt"):
        recording(name, format="FLAC" if name.endswith("FLAC") else "WAV")
    assert codec_run("-i", "b.wav", "in", "-i", "in/a.wav", "--out-dir", "out/codes") == (0, b"", "")
    assert files("out") == ["codes/a.rvq", "codes/b.rvq", "codes/deep/c.rvq"]
    assert codec_run("out", "--format", "flac")[0] == 0
    assert [name for name in files("out") if name.endswith("flac")] == [
        "codes/a.flac",
        "codes/b.flac",
        "codes/deep/c.flac",
    ]


def test_an_output_folder_inside_the_input_is_not_input(codec_run: Run) -> None:
    recording("a.wav")
    for _ in range(2):
        assert codec_run(".", "--out-dir", "codes")[0] == 0
    assert files() == ["a.wav", "codes/a.rvq"]


def test_a_failing_file_does_not_stop_the_others(codec_run: Run) -> None:
    recording("a.wav")
    recording("c.wav")
    Path("b.wav").write_text("this is no recording")
    codes_file("d.rvq", np.full((2, 16), 2047))
    code, output, errors = codec_run("a.wav", "b.wav", "c.wav", "d.rvq", "--quiet")
    assert (code, output) == (1, b"")
    assert errors.splitlines() == [
        "qwen-codec: error: cannot read b.wav as audio: Format not recognised (WAV, FLAC, MP3, Ogg, Opus, AIFF"
        " and others are; ffmpeg -i IN OUT.wav converts the rest)",
        "qwen-codec: error: d.rvq holds code 2047, the codebooks of this model have 64 entries",
        "qwen-codec: error: 2 of 4 files failed",
    ]
    assert files() == ["a.rvq", "a.wav", "b.wav", "c.rvq", "c.wav", "d.rvq"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x.rvq is not a whole number of frames: 0 bytes"),
        (bytes(21), "21 bytes, a .rvq file has a positive multiple of 22"),
        (bytes(46), "46 bytes"),
        (
            rvq.pack(np.full((5, 16), 2047)),
            "x.rvq holds code 2047, the codebooks of this model have 64 entries",
        ),
    ],
)
def test_damaged_codes(codec_run: Run, data: bytes, message: str) -> None:
    Path("x.rvq").write_bytes(data)
    code, output, errors = codec_run("x.rvq")
    assert (code, output, errors.count("\n")) == (1, b"", 1)
    assert message in errors
    assert files() == ["x.rvq"]


def test_one_byte_too_many_is_a_warning(codec_run: Run) -> None:
    codes_file("x.rvq")
    codec_run("x.rvq", "-o", "expected.wav")
    with Path("x.rvq").open("ab") as file:
        file.write(b"\xff")
    code, _, errors = codec_run("x.rvq")
    assert code == 0
    assert errors == "qwen-codec: warning: x.rvq ends with a byte that belongs to no code: it is ignored\n"
    assert Path("x.wav").read_bytes() == Path("expected.wav").read_bytes()


@pytest.mark.parametrize("value", [0, 63])
def test_extreme_codes(codec_run: Run, value: int) -> None:
    codes_file("x.rvq", np.full((5, 16), value))
    assert codec_run("x.rvq") == (0, b"", "")
    assert soundfile.info("x.wav").frames == 5 * 1920


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros(9000), "clip.wav is silent"),
        (np.full(1000, 0.1), "clip.wav is shorter than 0.12 s"),
    ],
)
def test_recordings_without_a_voice(
    codec_run: Run, tiny_gguf: Callable[..., Path], samples: np.ndarray, message: str
) -> None:
    """Codes of them are codes, with a warning; a voice is an error that leaves no file."""
    soundfile.write("clip.wav", samples, 24_000)
    code, _, errors = codec_run("clip.wav", "-o", "x.rvq", "--talker", tiny_gguf(TALKERS[0]))
    assert (code, errors.count("\n")) == (1, 1)
    assert files() == ["clip.wav"]
    code, _, errors = codec_run("clip.wav")
    assert code == 0
    assert f"warning: {message}" in errors


@pytest.mark.parametrize(
    ("samples", "message"),
    [(np.zeros(0), "too short"), (np.full(4000, np.nan), "NaN"), (np.full(4000, np.inf), "infinite")],
)
def test_unusable_recordings(codec_run: Run, samples: np.ndarray, message: str) -> None:
    soundfile.write("clip.wav", samples, 24_000, subtype="FLOAT")
    code, _, errors = codec_run("clip.wav")
    assert (code, errors.count("\n")) == (1, 1)
    assert message in errors
    assert files() == ["clip.wav"]


USAGE_ERRORS: list[tuple[list[str], str]] = [
    (["-i", "none.wav"], "'none.wav' does not exist"),
    (["clip.wav", "--no-such"], "No such option"),
    (["clip.wav", "--format", "wav-16"], "wav16"),
    (["clip.wav", "--encode", "--decode"], "exclude each other"),
    (["clip.wav", "--quiet", "--verbose"], "exclude each other"),
    (["clip.wav", "-o", "x.rvq", "--out-dir", "y"], "exclude each other"),
    (["-o", "x.rvq"], "missing input"),
    (["--decode"], "missing input"),
    (["clip.wav", "codes.rvq", "-o", "x.rvq"], "there are 2 inputs: use --out-dir"),
    (["clip.wav", "-"], "by itself"),
    (["-", "--out-dir", "y"], "use -o"),
    (["clip.wav", "-o", "clip.wav"], "should end in .rvq"),
    (["clip.wav", "-o", "x.flac"], "should end in .rvq"),
    (["plain", "-o", "plain"], "plain is an input and would be replaced"),
    (["plain", "-o", "link"], "plain is an input and would be replaced"),
    (["codes.rvq", "-o", "codes.rvq"], "is no name for that"),
    (["codes.rvq", "-o", ""], "the output has no name"),
    (["clip.wav", "-o", " "], "the output has no name"),
    (["codes.rvq", "-o", "x.wav", "--format", "mp3"], "mp3"),
    (["codes.rvq", "-o", "x.doc"], "no audio format is known"),
    (["codes.rvq", "--encode"], "holds codes already"),
    (["clip.wav", "--decode"], "is audio"),
    (["clip.wav", "clip.flac"], "clip.wav and clip.flac would both become 'clip.rvq'"),
    (["voice.spk"], "is a speaker embedding"),
    (["model.gguf"], "is a model file: name it with --model or --talker"),
    (["empty"], "folder 'empty' holds no audio or .rvq files"),
    (["--encode", "codes"], "holds no audio files"),
    (["mixed"], "holds both audio and .rvq files: add --encode or --decode"),
    (["--decode", "mixed"], "would replace 'mixed/a.wav', perhaps its original: use --out-dir"),
    (["--decode", "mixed", "--out-dir", "mixed"], "would replace 'mixed/a.wav'"),
    (["clip.wav", "-o", "-", "--talker", "model.gguf"], "name that one with -o"),
    (["clip.wav", "--threads", "0"], "1<=x<=512"),
    (["clip.wav", "--device", "cuda77"], "cuda77"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), USAGE_ERRORS, ids=[" ".join(row[0]) for row in USAGE_ERRORS]
)
def test_usage_errors(codec_run: Run, arguments: list[str], message: str) -> None:
    for name in ("clip.wav", "clip.flac", "mixed/a.wav"):
        recording(name)
    recording("plain", format="WAV")
    for name in ("codes.rvq", "mixed/a.rvq", "codes/a.rvq"):
        codes_file(name)
    for name in ("voice.spk", "model.gguf"):
        Path(name).touch()
    Path("empty").mkdir()
    Path("link").symlink_to("plain")
    before = {name: Path(name).read_bytes() for name in files()}
    code, output, errors = codec_run(*arguments)
    assert (code, output, errors.count("\n")) == (2, b"", 1), errors
    assert message in errors
    assert {name: Path(name).read_bytes() for name in files()} == before


def test_needless_options_are_said_to_be(codec_run: Run, tiny_gguf: Callable[..., Path]) -> None:
    recording("clip.wav")
    codes_file("codes.rvq")
    assert "--format concerns decoding only" in codec_run("clip.wav", "--format", "mp3")[2]
    assert "--talker concerns encoding only" in codec_run("codes.rvq", "--talker", tiny_gguf(TALKERS[1]))[2]


@pytest.mark.parametrize("output", ["none/x.rvq", ".", "new/"])
def test_where_nothing_can_be_written(codec_run: Run, output: str) -> None:
    recording("clip.wav")
    code, _, errors = codec_run("clip.wav", "-o", output)
    assert (code, errors.count("\n")) == (1, 1)
    assert "cannot write" in errors


def test_models_of_another_kind(codec_run: Run, tiny_gguf: Callable[..., Path]) -> None:
    recording("clip.wav")
    codec, custom_voice = tiny_gguf(), tiny_gguf(TALKERS[1])
    for model, talker, message in (
        (custom_voice, None, "a Qwen3-TTS codec"),
        (codec, codec, "a Qwen3-TTS talker"),
        (codec, custom_voice, "no speaker encoder, it is a custom_voice model"),
        (Path("clip.wav"), None, "not a GGUF file"),
    ):
        code, _, errors = codec_run("clip.wav", *(["--talker", talker] if talker else []), model=model)
        assert (code, errors.count("\n")) == (1, 1)
        assert message in errors
    assert files() == ["clip.wav"]


def test_the_self_test(codec_run: Run, tiny_gguf: Callable[..., Path]) -> None:
    code, output, errors = codec_run("--talker", tiny_gguf(TALKERS[0]))
    assert (code, output) == (0, b"")
    assert errors.startswith("[Codec] Load self-test passed: 16 codebooks of 64 entries, 12.5 frames")
    assert codec_run("--quiet") == (0, b"", "")


def test_the_demo_codec_says_what_it_is(codec_run: Run) -> None:
    recording("clip.wav")
    code, _, errors = codec_run("clip.wav", model=None)
    assert (code, errors.count("\n")) == (0, 1)
    assert "the packaged demo codec is used" in errors
    assert codec_run("clip.wav", "--quiet", model=None) == (0, b"", "")
    assert codec_run("clip.rvq", "-o", "copy.wav", "--quiet", model=None) == (0, b"", "")
    Path("x.rvq").write_bytes(rvq.pack(np.full((5, 16), 2047)))
    assert "code 2047, the codebooks of this model have 256 entries" in codec_run("x.rvq", model=None)[2]


def test_verbose_lines_are_those_of_the_other_program(codec_run: Run, tiny_gguf: Callable[..., Path]) -> None:
    recording("clip.wav", 0.25)
    errors = codec_run("clip.wav", "--talker", tiny_gguf(TALKERS[0]), "--verbose")[2]
    assert errors.splitlines() == [
        "[Codec] Encode: clip.wav, 6000 samples @ 24000 Hz (4 frames @ 12.5 Hz, 0.25 s)",
        "[Codec] Wrote clip.rvq: K=16 T=4, 64 codes -> 88 packed bytes",
        "[Codec] Wrote clip.spk: 256 f32 values (1024 bytes)",
    ]
    errors = codec_run("clip.rvq", "-o", "-", "--verbose")[2]
    assert errors.splitlines() == [
        "[Codec] Decode: clip.rvq, K=16 T=4 (0.32 s)",
        "[Codec] Wrote <stdout>: 7680 samples @ 24000 Hz, 0.32 s",
    ]


class Interrupted:
    """A codec during whose work somebody presses Ctrl-C."""

    def __enter__(self) -> Interrupted:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def encode(self, *arguments: object, **options: object) -> np.ndarray:
        raise KeyboardInterrupt


def test_ctrl_c_while_encoding(codec_run: Run) -> None:
    recording("a.wav")
    recording("b.wav")
    services = Services(lambda *arguments, **options: Interrupted(), lambda: Path("demo"))  # type: ignore[arg-type]
    assert codec_run("a.wav", "b.wav", services=services) == (130, b"", "")
    assert files() == ["a.wav", "b.wav"]
