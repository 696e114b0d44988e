"""`omnivoice-tts` with the tiny model: options, texts, streams, voices, subtitles, debug modes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ggtts.cli.omnivoice_tts import NAME, Services, command
from ggtts.core.audio import wav
from ggtts.core.audio.formats import F32, S16
from ggtts.core.errors import EngineError
from ggtts.core.omnivoice.language_model import LanguageModel
from ggtts.core.omnivoice.model import Narrator, OmniSpeechRequest, OmniVoice
from support.data import DATA, OMNIVOICE, OMNIVOICE_CODEC
from support.omnivoice_commands import CHEAP, Opener, Result, invoke

CASES = DATA / "cases"
AUDIO = DATA / "golden" / "audio"
Run = Callable[..., Result]


@pytest.fixture(scope="session")
def files(tiny_gguf: Callable[..., Path]) -> tuple[str | Path, ...]:
    return ("--model", tiny_gguf(OMNIVOICE), "--codec", tiny_gguf(OMNIVOICE_CODEC))


@pytest.fixture(scope="session")
def opener() -> Opener:
    return Opener(OmniVoice.open)


@pytest.fixture
def tts(opener: Opener, files: tuple[str | Path, ...]) -> Run:
    """`tts("-o", path, text="Hello.")` runs the command in this process."""
    services = Services(opener, LanguageModel.open)

    def call(
        *arguments: str | Path, text: str | bytes = "Hello there, all of you.", cheap: bool = True
    ) -> Result:
        return invoke(command, NAME, services, (*files, *(CHEAP if cheap else ()), *arguments), text)

    return call


def test_speaks_into_a_file(tts: Run, tmp_path: Path) -> None:
    result = tts("-o", tmp_path / "out.wav", "--quiet")
    assert (result.code, result.stdout, result.stderr) == (0, b"", "")
    info = soundfile.info(tmp_path / "out.wav")
    assert (info.samplerate, info.channels, info.subtype) == (24_000, 1, "PCM_16")
    assert info.duration > 1


def test_a_pipe_carries_the_samples_of_the_file(tts: Run, tmp_path: Path) -> None:
    tts("-o", tmp_path / "out.wav")
    result = tts("-o", "-")
    assert result.code == 0
    assert result.stdout[:44] == wav.stream_header(S16, 24_000)
    assert result.stdout[44:] == (tmp_path / "out.wav").read_bytes()[44:]


@pytest.mark.parametrize("name", ["three_sentences", "many_lines", "crlf", "bom_utf16le", "long_chapter"])
def test_all_of_a_text_goes_through_a_pipe(tts: Run, name: str) -> None:
    data = (CASES / f"{name}.txt").read_bytes()[:1000]
    result = tts("-o", "-", text=data)
    assert result.code == 0
    seconds = (len(result.stdout) - 44) / 48_000
    assert seconds > len(data.decode("utf-16" if "utf16" in name else "utf-8")) / 40


@pytest.mark.parametrize("name", ["one_word", "interjection_zh", "symbols_only", "maths_and_kaomoji"])
def test_texts_that_say_little_end_all_the_same(tts: Run, tmp_path: Path, name: str) -> None:
    result = tts("-o", tmp_path / "out.wav", text=(CASES / f"{name}.txt").read_bytes())
    assert result.code == 0
    assert 1 < soundfile.info(tmp_path / "out.wav").duration < 5
    assert ("very short" in result.stderr) == (name != "maths_and_kaomoji")


def test_each_line_has_a_header_of_its_own_and_no_empty_one(tts: Run) -> None:
    text = "\n\nThe first line.\n\nThe second one.\nThe third, without an end"
    result = tts("-o", "-", "--stream-by-line", text=text)
    assert result.code == 0
    assert result.stdout.count(b"RIFF") == 3
    assert all(len(part) > 10_000 for part in result.stdout.split(b"RIFF")[1:])


@pytest.mark.parametrize("arguments", [["-o", "out.wav"], ["-o", "-"], ["-o", "-", "--stream-by-line"]])
@pytest.mark.parametrize("name", ["empty", "whitespace_only"])
def test_nothing_to_say(
    tts: Run, opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = opener.times
    result = tts(*arguments, text=(CASES / f"{name}.txt").read_bytes())
    assert (result.code, result.stdout) == (2, b"")
    assert "nothing to say" in result.stderr
    assert opener.times == opened
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["-o", "out.wav"], ["-o", "-"], ["-o", "-", "--stream-by-line"]])
@pytest.mark.parametrize("name", ["bad_utf8", "nul_inside"])
def test_what_is_no_text(
    tts: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tts(*arguments, text=(CASES / f"{name}.txt").read_bytes())
    assert result.code == 1
    assert "byte offset" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "missing option -o"),
        (("-o", "out.wav", "--lang", "Klingonese"), "unknown language 'Klingonese'"),
        (("-o", "out.wav", "--instruct", "happy"), "Unsupported instruct items"),
        (("-o", "out.wav", "--ref-wav", AUDIO / "ref_24k.wav"), "--ref-wav needs --ref-text"),
        (("-o", "out.wav", "--ref-text", CASES / "one_word.txt"), "needs the recording that says it"),
        (("-o", "out.wav", "--duration", "1", "--speed", "2"), "exclude each other"),
        (("-o", "out.wav", "--steps", "0"), "--steps"),
        (("-o", "out.wav", "--guidance", "nan"), "not a finite number"),
        (("-o", "out.wav", "--layer-penalty", "nan"), "not a finite number"),
        (("-o", "out.wav", "--stream-by-line"), "--stream-by-line needs -o -"),
        (("-o", "out.wav", "--fail-fast"), "--fail-fast needs --stream-by-line"),
        (("-o", "out.wav", "--srt-report", "r.json"), "--srt-report needs --srt"),
        (("-o", "-", "--srt", CASES / "plain.srt"), "--srt and -o - exclude each other"),
        (
            ("-o", "o.wav", "--srt", CASES / "plain.srt", "--srt-report", "o.wav"),
            "-o and --srt-report name the same file: 'o.wav'",
        ),
        (
            ("-o", "o.wav", "--srt", CASES / "plain.srt", "--srt-report", CASES / "plain.srt"),
            "would replace the file of --srt",
        ),
        (("-o", "o.wav", "--srt", CASES / "plain.srt", "--duration", "2"), "--srt and --duration exclude"),
        (("-o", "out.wav", "hello"), "the text comes on standard input"),
        (("-o", "out.xyz"), "no audio format is known"),
        (("--llm-test", CASES / "empty.txt", "--maskgit-test", "-o", "x"), "exclude each other"),
        (("--llm-test", CASES / "one_word.txt", "-o", "x"), "no input of the language model"),
        (("--maskgit-test", "--srt", CASES / "plain.srt", "-o", "x"), "exclude each other"),
    ],
)
def test_what_cannot_be_right_ends_with_2_and_one_line(
    tts: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str | Path, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tts(*arguments)
    assert (result.code, result.stdout) == (2, b"")
    assert message in result.stderr
    assert result.stderr.startswith("omnivoice-tts: error: ")
    assert result.stderr.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--ref-wav", "in.wav", "--ref-text", "words.txt", "-o", "in.wav"),
        ("--ref-wav", "in.wav", "--ref-text", "words.txt", "-o", "link.wav"),
        ("--ref-wav", "in.wav", "--ref-text", "words.txt", "-o", "words.txt", "--format", "wav16"),
        ("--ref-rvq", "in.rvq", "-o", "./in.rvq", "--format", "wav16"),
        ("--srt", "in.srt", "-o", "in.srt", "--format", "wav16"),
        ("--srt", "in.srt", "-o", "out.wav", "--srt-report", "in.srt"),
        ("--llm-test", "in.rvq", "-o", "in.rvq"),
    ],
)
def test_no_output_replaces_an_input(
    tts: Run, opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    contents = {"in.wav": b"w", "words.txt": b"t", "in.rvq": b"r", "in.srt": b"s"}
    for name, data in contents.items():
        Path(name).write_bytes(data)
    Path("link.wav").symlink_to("in.wav")
    opened = opener.times
    result = tts(*arguments)
    assert (result.code, result.stderr.count("\n")) == (2, 1)
    assert "would replace the file of --" in result.stderr
    assert opener.times == opened
    assert all(Path(name).read_bytes() == data for name, data in contents.items())


@pytest.mark.parametrize("flag", ["--model", "--codec"])
def test_the_model_is_not_replaced(tts: Run, files: tuple[str | Path, ...], flag: str) -> None:
    model = files[files.index(flag) + 1]
    result = tts("-o", model, "--format", "wav16")
    assert (result.code, f"would replace the file of {flag}" in result.stderr) == (2, True)


def test_without_a_model_one_line_says_how_to_get_one() -> None:
    result = invoke(command, NAME, None, ("-o", "out.wav"), "Hello.")
    assert result.code == 2
    assert "./models.sh omnivoice" in result.stderr
    assert result.stderr.count("\n") == 1
    result = invoke(command, NAME, None, ("--codec", CASES / "one_word.txt"), "Hello.")
    assert (result.code, "needs --model" in result.stderr) == (2, True)


def test_a_voice_from_codes_is_the_voice_of_the_recording(tts: Run, opener: Opener, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("你好，世界", encoding="utf-8")
    clone = ("--ref-wav", AUDIO / "ref_quiet_16k.flac", "--ref-text", tmp_path / "words.txt")
    assert tts("-o", tmp_path / "wav.wav", *clone).code == 0
    model = opener()
    model.voice(AUDIO / "ref_quiet_16k.flac", "你好，世界").save(tmp_path / "voice.rvq")
    assert tts("-o", tmp_path / "rvq.wav", "--ref-rvq", tmp_path / "voice.rvq").code == 0
    assert (tmp_path / "rvq.wav").read_bytes() == (tmp_path / "wav.wav").read_bytes()

    (tmp_path / "voice.rvq.json").unlink()
    result = tts("-o", tmp_path / "rvq.wav", "--ref-rvq", tmp_path / "voice.rvq")
    assert (result.code, "needs --ref-text" in result.stderr) == (2, True)


@pytest.mark.parametrize("reference", ["silent", "short", "tenth", "nothing"])
def test_a_reference_that_cannot_be_used_is_an_error(tts: Run, tmp_path: Path, reference: str) -> None:
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 24_000)
    samples = {
        "silent": 0 * noise,
        "short": noise[:1_000],
        "tenth": noise[:2_400],
        "nothing": noise[:0],
    }[reference]
    soundfile.write(tmp_path / "ref.wav", samples, 24_000)
    arguments = ("--ref-wav", tmp_path / "ref.wav", "--ref-text", CASES / "one_word.txt")
    result = tts("-o", tmp_path / "out.wav", *arguments)
    assert (result.code, result.stderr.count("\n")) == (1, 1)
    assert "ref.wav" in result.stderr
    assert not (tmp_path / "out.wav").exists()


def test_options_reach_the_model(tts: Run, tmp_path: Path) -> None:
    def spoken(*options: str) -> np.ndarray:
        usual = ("--no-postprocess", "--duration", "2.0", "--steps", "2", "--format", "wav32")
        assert tts("-o", tmp_path / "out.wav", *usual, *options).code == 0
        samples, _ = soundfile.read(tmp_path / "out.wav", dtype="float32")
        assert len(samples) == 48_000
        return samples

    usual = spoken()
    for option in (
        *(["--instruct", "male"], ["--lang", "de"], ["--guidance", "0"], ["--seed", "8"], ["--steps", "3"]),
        *(["--t-shift", "0.9"], ["--layer-penalty", "0"], ["--position-temp", "0"], ["--class-temp", "1"]),
        ["--cfg-compat"],
    ):
        assert not np.array_equal(spoken(*option), usual), option
    tts("-o", tmp_path / "slow.wav", "--no-postprocess", "--speed", "0.5")
    assert soundfile.info(tmp_path / "slow.wav").duration > 3


def test_switches_reach_the_model(tts: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests, prepared = [], []
    stream, voice = OmniVoice.stream, OmniVoice.voice
    monkeypatch.setattr(
        OmniVoice,
        "stream",
        lambda self, request, **rest: requests.append(request) or stream(self, request, **rest),
    )
    monkeypatch.setattr(
        OmniVoice, "voice", lambda self, *rest, **how: prepared.append(how) or voice(self, *rest, **how)
    )
    reference = ("--ref-wav", AUDIO / "ref_24k.wav", "--ref-text", CASES / "one_word.txt")
    for switches in ((), ("--no-denoise", "--no-preprocess-prompt")):
        assert tts("-o", tmp_path / "out.wav", *reference, *switches).code == 0
    assert [request.denoise for request in requests] == [True, False]
    assert [how["preprocess"] for how in prepared] == [True, False]


def test_all_lines_have_one_voice(tts: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    narrators = []
    stream = OmniVoice.stream
    monkeypatch.setattr(
        OmniVoice,
        "stream",
        lambda self, *rest, narrator, **more: (
            narrators.append(narrator) or stream(self, *rest, narrator=narrator, **more)
        ),
    )
    assert tts("-o", "-", "--stream-by-line", text="One line.\nAnother line.\n").code == 0
    assert len(narrators) == 2
    assert narrators[0] is narrators[1] is not None


@pytest.mark.parametrize(("flags", "spoken"), [((), 2), (("--fail-fast",), 1)])
def test_a_line_that_fails(
    tts: Run, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], spoken: int
) -> None:
    stream = OmniVoice.stream

    def failing(self: OmniVoice, request: OmniSpeechRequest, **rest: object) -> object:
        if "bad" in request.text:
            raise EngineError("out of memory")
        return stream(self, request, **rest)

    monkeypatch.setattr(OmniVoice, "stream", failing)
    result = tts("-o", "-", "--stream-by-line", *flags, text="One line.\nA bad line.\nThe last line.\n")
    assert result.code == 1
    assert "line 2: out of memory" in result.stderr
    assert result.stdout.count(b"RIFF") == spoken


def test_a_line_that_is_no_text_is_reported_and_the_next_one_spoken(tts: Run) -> None:
    result = tts("-o", "-", "--stream-by-line", text=b"One line.\nBro\xffken.\nThe last line.\n")
    assert result.code == 1
    told = [line for line in result.stderr.splitlines() if "error" in line]
    assert told[0].startswith("omnivoice-tts: error: line 2: standard input: byte 0xFF")
    assert told[1:] == ["omnivoice-tts: error: 1 of 3 lines could not be spoken"]
    assert result.stdout.count(b"RIFF") == 2


def test_verbose_tells_the_seed_and_the_times(tts: Run, tmp_path: Path) -> None:
    result = tts("-o", tmp_path / "out.wav", "--verbose", "--dump", tmp_path / "dump")
    assert "[CLI] Seed: 7" in result.stderr
    assert "[Perf] Generate" in result.stderr
    assert (tmp_path / "dump" / "mg-tokens.bin").is_file()


@pytest.mark.parametrize("seed", [(), ("--seed", "5")])
def test_lines_and_cues_tell_the_one_seed_that_repeats_them(
    tts: Run, tmp_path: Path, seed: tuple[str, ...]
) -> None:
    def told(result: Result) -> set[str]:
        return {line for line in result.stderr.splitlines() if line.startswith("[CLI] Seed: ")}

    usual = ("--steps", "1", "--device", "cpu", "--verbose")
    lines = ("-o", "-", "--stream-by-line", *usual)
    first = tts(*lines, *seed, text="One line.\nAnother line.\n", cheap=False)
    (line,) = told(first)
    assert not seed or line == "[CLI] Seed: 5"
    again = tts(*lines, "--seed", line.split()[-1], text="One line.\nAnother line.\n", cheap=False)
    assert again.stdout == first.stdout

    cues = ("--srt", CASES / "plain.srt", *usual)
    (line,) = told(tts(*cues, "-o", tmp_path / "film.wav", *seed, text="", cheap=False))
    tts(*cues, "-o", tmp_path / "again.wav", "--seed", line.split()[-1], text="", cheap=False)
    assert (tmp_path / "again.wav").read_bytes() == (tmp_path / "film.wav").read_bytes()


def test_dubs_a_film(tts: Run, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = tts("--srt", CASES / "plain.srt", "-o", tmp_path / "film.wav", "--srt-report", report, text="")
    assert (result.code, result.stderr) == (0, "")
    cues = json.loads(report.read_text("utf-8"))["cues"]
    assert [cue["cue"] for cue in cues] == [1, 2, 3]
    assert [cue["slot"]["start"] for cue in cues] == [0.5, 2.5, 6.0]
    assert all(cue["spoken"]["start"] == cue["slot"]["start"] for cue in cues)
    assert all(0 < cue["ratio"] < 5 and cue["stretched"] == 1 and cue["cut"] == 0 for cue in cues)
    last = max(7.2, cues[-1]["spoken"]["end"])
    assert soundfile.info(tmp_path / "film.wav").duration == pytest.approx(last, abs=1e-4)


def test_a_film_without_a_single_word_is_a_failure(
    tts: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise EngineError("out of memory")

    monkeypatch.setattr(Narrator, "say", failing)
    result = tts("--srt", CASES / "plain.srt", "-o", tmp_path / "film.wav", text="")
    assert result.code == 1
    assert "none of 3 cues could be spoken: out of memory" in result.stderr
    assert not any(tmp_path.iterdir())


def test_a_report_on_standard_output(tts: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = tts("--srt", CASES / "plain.srt", "-o", "film.wav", "--srt-report", "-", text="")
    assert (result.code, len(json.loads(result.stdout)["cues"])) == (0, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["film.wav"]


@pytest.mark.parametrize(
    "name", ["overlapping_unsorted", "too_short_slots", "tags_and_dots", "empty_cue", "repeated_and_touching"]
)
def test_subtitles_from_bug_reports(tts: Run, tmp_path: Path, name: str) -> None:
    report = tmp_path / "report.json"
    result = tts("--srt", CASES / f"{name}.srt", "-o", tmp_path / "film.wav", "--srt-report", report, text="")
    assert result.code == 0
    spoken = [cue["spoken"] for cue in json.loads(report.read_text("utf-8"))["cues"]]
    assert spoken
    assert all(one["end"] <= other["start"] for one, other in pairwise(spoken))
    warned = {
        "overlapping_unsorted": "cue 2 overlaps cue 3",
        "too_short_slots": "cue 1 does not fit its slot",
    }
    assert warned.get(name, "") in result.stderr


@pytest.mark.parametrize(("name", "line"), [("not_an", "line 1"), ("end_before_start", "line 2")])
def test_what_is_no_subtitle_file(tts: Run, opener: Opener, tmp_path: Path, name: str, line: str) -> None:
    opened = opener.times
    result = tts("--srt", CASES / f"{name}.srt", "-o", tmp_path / "film.wav", text="")
    assert result.code == 1
    assert line in result.stderr
    assert result.stderr.count("\n") == 1
    assert opener.times == opened
    assert not any(tmp_path.iterdir())


def test_runs_of_the_language_model_alone(tts: Run, tmp_path: Path) -> None:
    ids = np.arange(8 * 3, dtype="<i4")
    head, mask = np.array([8, 3], "<i4"), np.array([0, 1, 1], "<i4")
    (tmp_path / "in.bin").write_bytes(head.tobytes() + ids.tobytes() + mask.tobytes())
    assert tts("--llm-test", tmp_path / "in.bin", "-o", tmp_path / "out.bin").code == 0
    data = (tmp_path / "out.bin").read_bytes()
    assert np.frombuffer(data, "<i4", 3).tolist() == [65, 8, 3]
    assert len(data) == 12 + 4 * 65 * 8 * 3

    greedy = ("--maskgit-test", "--duration", "1")
    assert tts(*greedy, "-o", tmp_path / "codes.bin").code == 0
    codes = np.fromfile(tmp_path / "codes.bin", "<i4").reshape(8, 25)
    assert 0 <= codes.min() <= codes.max() < 64
    tts(*greedy, "--seed", "9", "-o", tmp_path / "again.bin")
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "codes.bin").read_bytes()


def test_lists_all_languages() -> None:
    result = invoke(command, NAME, None, ("--list-languages",), "")
    assert result.code == 0
    lines = result.stdout.decode().splitlines()
    assert len(lines) == 646
    assert any(line.startswith("en\tenglish") for line in map(str.lower, lines))


def test_the_first_sentence_is_heard_before_the_second_is_typed(files: tuple[str | Path, ...]) -> None:
    arguments = [*map(str, files), *CHEAP, "-o", "-", "--format", "f32"]
    with subprocess.Popen(
        [sys.executable, "-m", "ggtts.cli.omnivoice_tts", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"This is the first sentence of all.\n")
        process.stdin.flush()
        first = process.stdout.read(4 * 24_000)
        assert len(first) == 4 * 24_000
        process.stdin.write(b"And this is the second.")
        process.stdin.close()
        assert len(process.stdout.read()) > 4 * 24_000
        assert process.wait() == 0


def test_samples_are_little_endian_floats_where_asked(tts: Run, tmp_path: Path) -> None:
    tts("-o", tmp_path / "out.wav", "--format", "wav32")
    result = tts("-o", "-", "--format", "f32")
    samples, _ = soundfile.read(tmp_path / "out.wav", dtype="float32")
    assert result.stdout == wav.encode_samples(samples, F32)
