"""`omnivoice-codec` with the tiny codec: there and back, notes, names, what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ggtts.cli.omnivoice_codec import NAME, Services, command
from ggtts.core.formats import rvq
from ggtts.core.omnivoice.codec import OmniVoiceCodec
from support.data import DATA, OMNIVOICE_CODEC, load_golden
from support.omnivoice_commands import Opener, Result, invoke

AUDIO = DATA / "golden" / "audio"
Run = Callable[..., Result]


@pytest.fixture(scope="session")
def opener() -> Opener:
    return Opener(OmniVoiceCodec.open)


@pytest.fixture
def codec(
    opener: Opener, tiny_gguf: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """`codec("-i", "clip.wav")` runs the command in the folder `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    machine = ("--model", tiny_gguf(OMNIVOICE_CODEC), "--device", "cpu", "--threads", "1")

    def call(*arguments: str | Path, data: bytes = b"") -> Result:
        return invoke(command, NAME, Services(opener), (*machine, *arguments), data)

    return call


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return Path(shutil.copy(AUDIO / "ref_quiet_16k.flac", tmp_path / "clip.flac"))


def test_encodes_as_the_official_package_prepares_a_reference(codec: Run, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("你好，世界\n", encoding="utf-8")
    assert codec("-i", clip, "--ref-text", "words.txt", "--quiet") == Result(0, b"", "")
    golden = load_golden("omnivoice_prompt_ref_quiet_16k")
    assert (rvq.read(tmp_path / "clip.rvq", 8, 64) == golden["codes"].T).all()
    notes = json.loads((tmp_path / "clip.rvq.json").read_text("utf-8"))
    assert notes["text"] == "你好，世界"
    assert notes["rms"] == pytest.approx(float(golden["rms"]), rel=1e-6)


def test_raw_leaves_the_recording_as_it_is(codec: Run, clip: Path, tmp_path: Path) -> None:
    assert codec("-i", clip, "--raw", "-o", "raw.rvq").code == 0
    assert len(rvq.read(tmp_path / "raw.rvq", 8, 64)) == 63  # 62 with silence cut
    assert "rms" not in json.loads((tmp_path / "raw.rvq.json").read_text("utf-8"))


def test_decodes_every_frame(codec: Run, tmp_path: Path) -> None:
    codes = np.random.default_rng(1).integers(0, 64, (70, 8)).astype(np.int32)
    rvq.write(tmp_path / "codes.rvq", codes)
    result = codec("-i", "codes.rvq", "--verbose", "--format", "wav32")
    assert result.code == 0
    assert "K=8 T=70" in result.stderr
    samples, rate = soundfile.read(tmp_path / "codes.wav", dtype="float32")
    assert (len(samples), rate) == (70 * 960, 24_000)


def test_golden_codes_become_the_golden_wave(codec: Run, tmp_path: Path) -> None:
    golden = load_golden("omnivoice_codec_decode_mid")
    rvq.write(tmp_path / "mid.rvq", golden["codes"].T)
    codec("-i", "mid.rvq", "--format", "wav32")
    samples, _ = soundfile.read(tmp_path / "mid.wav", dtype="float32")
    assert np.abs(samples - golden["wav"]).max() < 1e-4


def test_the_original_is_not_replaced_by_its_copy(codec: Run, clip: Path, tmp_path: Path) -> None:
    samples, rate = soundfile.read(clip)
    soundfile.write(tmp_path / "clip.wav", samples, rate)
    original = (tmp_path / "clip.wav").read_bytes()
    assert codec("-i", "clip.wav").code == 0
    result = codec("-i", "clip.rvq")
    assert (result.code, "perhaps its original" in result.stderr) == (2, True)
    assert (tmp_path / "clip.wav").read_bytes() == original
    assert codec("-i", "clip.rvq", "-o", "copy.wav").code == 0
    assert codec("-i", "clip.rvq", "-o", "clip.wav").code == 0


def test_neither_the_model_nor_the_transcript_is_replaced(codec: Run, clip: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("Words.", encoding="utf-8")
    result = codec("-i", clip, "--ref-text", words, "-o", "words.txt")
    assert (result.code, "would replace the file of --ref-text" in result.stderr) == (2, True)
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    result = codec("-i", clip, "--model", model, "-o", "model.gguf")
    assert (result.code, "would replace the file of --model" in result.stderr) == (2, True)
    assert (words.read_text("utf-8"), model.read_bytes()) == ("Words.", b"GGUF")


def test_many_inputs_and_one_that_fails(codec: Run, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.wav").write_bytes(b"no audio")
    result = codec(clip, "broken.wav", "--out-dir", "codes")
    assert result.code == 1
    assert "1 of 2 files failed" in result.stderr
    assert sorted(path.name for path in (tmp_path / "codes").iterdir()) == ["clip.rvq", "clip.rvq.json"]


def test_through_pipes(codec: Run, clip: Path) -> None:
    codes = codec("-i", "-", "-o", "-", data=clip.read_bytes())
    assert codes.code == 0
    audio = codec("-i", "-", "-o", "-", data=codes.stdout)
    assert audio.stdout[:4] == b"RIFF"
    assert len(audio.stdout) == 44 + 2 * 960 * 62


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff" * 11, "holds code 2047"),
        (b"\x00" * 12, None),
        (b"\x00" * 5, "whole number of frames"),
        (b"", "empty"),
    ],
)
def test_codes_that_cannot_be(codec: Run, tmp_path: Path, data: bytes, message: str | None) -> None:
    (tmp_path / "some.rvq").write_bytes(data)
    result = codec("-i", "some.rvq")
    assert result.code == (1 if message else 0)
    assert (message or "ignored") in result.stderr or "whole number" in result.stderr
    assert (tmp_path / "some.wav").exists() == (message is None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-i", "clip.flac", "-o", "a.rvq", "--out-dir", "b"), "exclude each other"),
        (("-o", "a.rvq"), "missing input"),
        (("--raw",), "missing input"),
        (("-i", "clip.flac", "--encode", "--decode"), "exclude each other"),
    ],
)
def test_what_cannot_be_right(codec: Run, clip: Path, arguments: tuple[str, ...], message: str) -> None:
    result = codec(*arguments)
    assert (result.code, message in result.stderr) == (2, True)


def test_without_an_input_the_codec_is_tested(codec: Run) -> None:
    result = codec()
    assert result.code == 0
    assert "self-test passed: 8 codebooks of 64 entries, 25 frames per second" in result.stderr


def test_without_a_model_one_line_says_how_to_get_one() -> None:
    result = invoke(command, NAME, None, (), b"")
    assert result.code == 2
    assert "./models.sh omnivoice" in result.stderr
    assert result.stderr.count("\n") == 1
