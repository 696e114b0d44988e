"""`qwen-tts` clones for real, with the tiny models: what reaches the model, and what each kind of model refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from ggtts.cli.errors import run
from ggtts.cli.qwen_tts import NAME, command
from ggtts.core.formats import rvq, spk
from support.data import CODEC

pytest.importorskip("ggtts._native")

BASE = "Qwen3-TTS-12Hz-0.6B-Base"
CUSTOM = "Qwen3-TTS-12Hz-0.6B-CustomVoice"
DESIGN = "Qwen3-TTS-12Hz-1.7B-VoiceDesign"
Speak = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def speak(tiny_gguf: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Speak:
    """`speak(MODEL, "--ref-wav", path)` -> exit code, standard output, standard error; beside the files of a voice."""
    monkeypatch.chdir(tmp_path)
    time_axis = np.arange(24_000)
    soundfile.write("voice.wav", 0.3 * np.sin(time_axis * 0.05) * np.sin(time_axis * 0.0007), 24_000)
    Path("voice.txt").write_text("Hello there.", "utf-8")

    def invoke(name: str, *arguments: str) -> tuple[int, bytes, str]:
        model = ("--model", str(tiny_gguf(name)), "--codec", str(tiny_gguf(CODEC)), "--max-new", "3")
        with CliRunner().isolation(input=b"Good morning.") as (stdout, stderr, _):
            code = run(command, NAME, [*model, "-o", "-", "--seed", "1", "--quiet", *arguments])
            return code, stdout.getvalue(), stderr.getvalue().decode()

    return invoke


def test_a_voice_speaks_the_same_from_its_recording_and_from_stored_files(speak: Speak) -> None:
    ways = {
        "nobody": (),
        "imitated": ("--ref-wav", "voice.wav"),
        "continued": ("--ref-wav", "voice.wav", "--ref-text", "voice.txt"),
    }
    spoken = {}
    for name, way in ways.items():
        code, output, errors = speak(BASE, *way, "--dump", name)
        assert (code, errors) == (0, "")
        assert len(output) == 44 + 3 * 2 * 1920
        spoken[name] = output
    assert len(set(spoken.values())) == 3
    spk.write(Path("voice.spk"), stage("continued", "spk-emb"))
    rvq.write(Path("voice.rvq"), stage("continued", "ref-codes").T.astype(np.int32))
    assert speak(BASE, "--ref-spk", "voice.spk")[1] == spoken["imitated"]
    stored = ("--ref-spk", "voice.spk", "--ref-rvq", "voice.rvq", "--ref-text", "voice.txt")
    assert speak(BASE, *stored)[1] == spoken["continued"]


def stage(folder: str, name: str) -> np.ndarray:
    """A stage that `--dump` wrote."""
    from ggtts.core.formats.dump import read_dump

    return read_dump(Path(folder) / f"{name}.bin")


@pytest.mark.parametrize(
    ("model", "arguments", "messages"),
    [
        (BASE, ("--speaker", "eva"), ("--speaker", "custom_voice", "base")),
        (BASE, ("--instruct", "softly"), ("--instruct", "base")),
        (CUSTOM, (), ("--speaker",)),
        (DESIGN, (), ("--instruct", "voice_design")),
        (CUSTOM, ("--ref-wav", "voice.wav"), ("--ref-wav", "base model", "custom_voice")),
        (DESIGN, ("--ref-wav", "voice.wav"), ("--ref-wav", "base model", "voice_design")),
        (CUSTOM, ("--ref-spk", "two.spk"), ("--ref-spk", "base model", "custom_voice")),
        (BASE, ("--ref-spk", "two.spk"), ("--ref-spk", "2 values", "this model needs")),
        (
            BASE,
            ("--ref-spk", "good.spk", "--ref-rvq", "high.rvq", "--ref-text", "voice.txt"),
            ("--ref-rvq", "2047"),
        ),
    ],
)
def test_each_kind_of_model_has_its_rules(
    speak: Speak, model: str, arguments: tuple[str, ...], messages: tuple[str, ...]
) -> None:
    spk.write(Path("two.spk"), np.ones(2))
    spk.write(Path("good.spk"), np.ones(256))
    rvq.write(Path("high.rvq"), np.full((3, 16), 2047, np.int32))
    code, output, errors = speak(model, *arguments)
    assert (code, output) == (2, b""), errors
    assert errors.count("\n") == 1
    assert not [message for message in messages if message not in errors], errors
