"""The clone options of `qwen-tts`: what goes together, what is read, what reaches the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ggtts.core.formats import rvq, spk
from support.fake_model import FakeModel

Run = Callable[..., "Result"]  # noqa: F821 (of conftest.py)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one file of each kind, the good and the bad; also the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("talker.gguf", "codec.gguf", "empty.txt", "empty.wav", "empty.spk", "empty.rvq"):
        Path(name).touch()
    tone = 0.3 * np.sin(np.arange(22_050) * 0.05)
    soundfile.write("voice.wav", np.stack([tone, tone], axis=1), 22_050)
    soundfile.write("short.wav", tone[:1000], 22_050)
    soundfile.write("silent.wav", np.zeros(22_050), 22_050)
    Path("noise.wav").write_bytes(b"no audio at all " * 100)
    Path("voice.txt").write_bytes(b"\xef\xbb\xbfWhat it says.\r\n")
    Path("blank.txt").write_text(" \n\n", "utf-8")
    Path("latin.txt").write_bytes(b"caf\xe9")
    spk.write(Path("voice.spk"), np.ones(4))
    rvq.write(Path("voice.rvq"), np.zeros((3, 16), np.int32))
    Path("odd.spk").write_bytes(b"12345")
    Path("odd.rvq").write_bytes(b"12345")
    return tmp_path


MODEL = ("--model", "talker.gguf", "--codec", "codec.gguf", "-o", "out.wav", "--quiet")
RVQ = ("--ref-rvq", "voice.rvq", "--ref-spk", "voice.spk")


def test_a_recording_becomes_the_voice(qwen_tts: Run, model: FakeModel, folder: Path) -> None:
    result = qwen_tts(*MODEL, "--ref-wav", "voice.wav")
    assert (result.code, result.stderr) == (0, "")
    samples, rate, text = model.voices[0]
    assert (samples.shape, rate, text) == ((22_050,), 22_050, None)
    voice = model.requests[0].voice
    assert voice is not None
    assert not voice.in_context


def test_a_transcript_goes_with_the_recording(qwen_tts: Run, model: FakeModel, folder: Path) -> None:
    assert qwen_tts(*MODEL, "--ref-wav", "voice.wav", "--ref-text", "voice.txt").code == 0
    assert model.voices[0][2] == "What it says."
    assert model.requests[0].voice.text == "What it says."  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["voice.wav", "./voice.wav", "link.wav"])
def test_the_recording_is_not_spoken_over(qwen_tts: Run, model: FakeModel, folder: Path, name: str) -> None:
    Path("link.wav").symlink_to("voice.wav")
    before = Path("voice.wav").read_bytes()
    result = qwen_tts(*MODEL, "--ref-wav", "voice.wav", "-o", name)
    assert result.code == 2
    assert result.stderr == (
        f"qwen-tts: error: -o '{name}' would replace the file of --ref-wav: choose another name\n"
    )
    assert not model.opened
    assert Path("voice.wav").read_bytes() == before


def test_stored_voices_are_used_as_they_are(qwen_tts: Run, model: FakeModel, folder: Path) -> None:
    assert qwen_tts(*MODEL, "--ref-spk", "voice.spk").code == 0
    assert qwen_tts(*MODEL, *RVQ, "--ref-text", "voice.txt").code == 0
    embedding, full = (request.voice for request in model.requests)
    assert embedding is not None
    assert full is not None
    assert (embedding.embedding.tolist(), embedding.codes, embedding.text) == ([1, 1, 1, 1], None, None)
    assert full.codes is not None
    assert (full.codes.shape, full.text) == ((3, 16), "What it says.")
    assert not model.voices


def test_the_stages_of_the_encoders_are_dumped(qwen_tts: Run, folder: Path) -> None:
    assert qwen_tts(*MODEL, "--ref-wav", "voice.wav", "--dump", "stages").code == 0
    assert sorted(path.name for path in (folder / "stages").iterdir()) == [
        "audio-input.bin",
        "codes-full.bin",
    ]


def test_the_lines_of_a_stream_share_the_voice(qwen_tts: Run, model: FakeModel, folder: Path) -> None:
    arguments = [*MODEL[:4], "-o", "-", "--quiet", "--stream-by-line", "--ref-wav", "voice.wav"]
    assert qwen_tts(*arguments, text="One.\nTwo.\n").code == 0
    assert len(model.voices) == 1
    assert model.requests[0].voice is model.requests[1].voice is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ref-wav", "voice.wav", "--speaker", "eva"), "--speaker and --ref-wav exclude each other"),
        (("--ref-spk", "voice.spk", "--speaker", "eva"), "--speaker and --ref-spk exclude each other"),
        (("--ref-wav", "voice.wav", "--instruct", "x"), "--instruct and --ref-wav exclude each other"),
        (("--ref-wav", "voice.wav", "--ref-spk", "voice.spk"), "--ref-wav and --ref-spk exclude each other"),
        (("--ref-wav", "voice.wav", "--ref-rvq", "voice.rvq"), "--ref-wav and --ref-rvq exclude each other"),
        (("--ref-text", "voice.txt"), "--ref-text needs the recording that says it"),
        (
            ("--ref-text", "voice.txt", "--ref-spk", "voice.spk"),
            "--ref-text needs the recording that says it",
        ),
        (("--ref-rvq", "voice.rvq"), "--ref-rvq needs --ref-spk too"),
        (("--ref-rvq", "voice.rvq", "--ref-text", "voice.txt"), "--ref-rvq needs --ref-spk too"),
        (RVQ, "--ref-rvq needs --ref-text too"),
        (("--ref-wav", "none.wav"), "does not exist"),
        (("--ref-text", "none.txt", "--ref-wav", "voice.wav"), "does not exist"),
        (("--ref-wav", "."), "is a directory"),
        (("--ref-wav", "voice.wav", "--ref-text", "empty.txt"), "--ref-text empty.txt has nothing to say"),
        (("--ref-wav", "voice.wav", "--ref-text", "blank.txt"), "--ref-text blank.txt has nothing to say"),
    ],
)
def test_options_that_cannot_go_together(
    qwen_tts: Run, model: FakeModel, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    refuses(qwen_tts, model, (*MODEL, *arguments), 2, message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ref-wav", "noise.wav"), "cannot read noise.wav as audio"),
        (("--ref-wav", "empty.wav"), "the file is empty"),
        (("--ref-wav", "short.wav"), "short.wav is too short: 0.045 s"),
        (("--ref-wav", "silent.wav"), "silent.wav is silent"),
        (("--ref-wav", "voice.txt"), "cannot read voice.txt as audio"),
        (("--ref-wav", "voice.wav", "--ref-text", "latin.txt"), "byte offset 3"),
        (("--ref-wav", "voice.wav", "--ref-text", "voice.wav"), "byte offset"),
        (("--ref-spk", "odd.spk"), "odd.spk is not a speaker embedding: 5 bytes"),
        (("--ref-spk", "empty.spk"), "empty.spk is not a speaker embedding: 0 bytes"),
        (
            ("--ref-spk", "voice.spk", "--ref-rvq", "odd.rvq", "--ref-text", "voice.txt"),
            "odd.rvq is not a whole",
        ),
        (
            ("--ref-spk", "voice.spk", "--ref-rvq", "empty.rvq", "--ref-text", "voice.txt"),
            "empty.rvq is not a",
        ),
    ],
)
def test_files_that_are_of_no_use(
    qwen_tts: Run, model: FakeModel, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    refuses(qwen_tts, model, (*MODEL, *arguments), 1, message)


def test_the_demo_voice_cannot_clone(qwen_tts: Run, model: FakeModel, folder: Path) -> None:
    refuses(qwen_tts, model, ("-o", "out.wav", "--ref-wav", "voice.wav"), 2, "--ref-wav needs a base model")


def refuses(qwen_tts: Run, model: FakeModel, arguments: tuple[str, ...], code: int, message: str) -> None:
    """One line says what is wrong, before a model is loaded, and nothing is written."""
    result = qwen_tts(*arguments)
    assert (result.code, result.stdout) == (code, b""), result.stderr
    assert result.stderr.startswith("qwen-tts: error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert not model.opened
    assert not Path("out.wav").exists()
