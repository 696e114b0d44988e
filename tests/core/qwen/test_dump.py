"""Stages as files, under the names and in the shapes of the C++ harness."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggtts.core.errors import OutputError
from ggtts.core.formats.dump import read_dump
from ggtts.core.qwen.model import QwenTTS
from ggtts.core.speech.dump import StageDump
from ggtts.core.speech.observer import Observer, Observers
from support.comparing import deviation
from support.data import DATA, Golden
from support.tolerances import ACTIVATION
from support.watching import Recorder

Open = Callable[..., QwenTTS]

TALKER_STAGES = {
    "prompt-ids",
    "talker-input-embed",
    "trailing-text-hidden",
    "tts-pad-embed",
    "talker-hidden-prefill-l0",
    "talker-hidden-prefill-final",
    "talker-logits-prefill",
    "codes-step0",
    "next-emb-step0",
    "talker-hidden-step1",
    "codes-full",
    "output-audio",
}


def names(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.bin")}


@pytest.fixture(scope="module")
def clone(open_tiny: Open, golden: Callable[[str], Golden], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stages of a case of in-context cloning, from the recording on."""
    case = golden("0.6B-Base_icl_full")
    folder = tmp_path_factory.mktemp("dump") / "new" / "folder"
    model, dump = open_tiny("Qwen3-TTS-12Hz-0.6B-Base", kv_type="f32"), StageDump(folder)
    voice = model.voice(DATA / "golden" / "audio" / case.meta["ref"], case.meta["ref_text"], observer=dump)
    options = {"language": "english", "streamed_text": False, "greedy": True, "max_frames": 23}
    model.speak(case.meta["text"], voice=voice, observer=dump, **options)  # type: ignore[arg-type]
    return folder


def test_every_stage_is_there(clone: Path) -> None:
    reference = {"ref-ids", "spk-emb", "ref-codes"}
    speaker = {
        "mel-hann",
        "mel-basis",
        "mel-mag",
        "mel-spk",
        "spk-frontend",
        "spk-block3",
        "spk-mfa",
        "spk-asp",
    }
    strided = {f"seanet-stage{index}" for index in range(4)}
    codec = {"audio-input", "seanet-init", "seanet-resnet0", *strided, "seanet-out"}
    codec |= {"enc-transformer-out", "codec-pre-fsq"}
    assert names(clone) == {*TALKER_STAGES, "talker-hidden-prefill-l1"} | reference | speaker | codec


@pytest.mark.parametrize(
    ("stage", "key"),
    [
        ("prompt-ids", "input_ids"),
        ("ref-ids", "ref_ids"),
        ("talker-input-embed", "prompt_embeds"),
        ("trailing-text-hidden", "trailing_text"),
        ("tts-pad-embed", "tts_pad_embed"),
        ("talker-hidden-prefill-l0", "prefill_layer0"),
        ("talker-hidden-prefill-l1", "prefill_layer1"),
        ("talker-hidden-prefill-final", "prefill_final"),
        ("codes-full", "codes"),
        ("spk-emb", "ref_xvector"),
    ],
)
def test_stages_are_those_of_the_official_package(
    clone: Path, golden: Callable[[str], Golden], stage: str, key: str
) -> None:
    assert deviation(read_dump(clone / f"{stage}.bin"), golden("0.6B-Base_icl_full")[key]) < ACTIVATION


def test_single_values_of_the_official_package(clone: Path, golden: Callable[[str], Golden]) -> None:
    case = golden("0.6B-Base_icl_full")
    for stage, expected in (
        ("talker-logits-prefill", case["logits"][0]),
        ("codes-step0", case["codes"][0]),
        ("next-emb-step0", case["step_embeds"][0]),
        ("talker-hidden-step1", case["step_final"][0]),
        ("ref-codes", case["ref_codes"].T),
        ("mel-spk", case["ref_mel"].T),
    ):
        assert deviation(read_dump(clone / f"{stage}.bin"), expected) < 2 * ACTIVATION, stage


def test_shapes_of_the_encoders(clone: Path) -> None:
    samples = read_dump(clone / "audio-input.bin").size
    shapes = {name: read_dump(clone / f"{name}.bin").shape for name in names(clone)}
    frames = len(read_dump(clone / "mel-spk.bin"))
    assert shapes["mel-hann"] == (1024,)
    assert shapes["mel-basis"] == (128, 513)
    assert shapes["mel-mag"] == (frames, 513)
    assert shapes["spk-frontend"] == shapes["spk-block3"] == (frames, 32)
    assert shapes["spk-asp"] == (1, 192)
    assert shapes["seanet-init"] == shapes["seanet-resnet0"] == (samples, 4)
    assert [shapes[f"seanet-stage{index}"][0] for index in range(4)] == [
        -(-samples // stride) for stride in (4, 20, 120, 960)
    ]
    assert shapes["seanet-out"] == shapes["enc-transformer-out"] == (-(-samples // 960), 64)
    assert shapes["codec-pre-fsq"] == (26, 64)
    assert shapes["output-audio"] == (23 * 1920,)


def test_a_voice_without_recording_or_codes(open_tiny: Open, tmp_path: Path) -> None:
    model = open_tiny()
    model.speak("Hi.", speaker="vivian", max_frames=3, seed=1, observer=StageDump(tmp_path))
    assert names(tmp_path) == {*TALKER_STAGES, "talker-hidden-prefill-l2"}


def test_pieces_have_folders(open_tiny: Open, tmp_path: Path) -> None:
    options: dict[str, Any] = {"speaker": "vivian", "max_frames": 3, "seed": 1, "split": 1}
    open_tiny().speak("One. Two.", observer=StageDump(tmp_path), **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
    assert names(tmp_path / "1") & names(tmp_path / "2") >= TALKER_STAGES


def test_stages_change_nothing_and_cost_nothing_unless_wanted(open_tiny: Open) -> None:
    options: dict[str, Any] = {"speaker": "vivian", "max_frames": 5, "seed": 1}
    model, silent, noting = open_tiny(), Recorder(stages=False), Recorder()
    plain = model.speak("Hi.", **options)
    assert (model.speak("Hi.", observer=silent, **options).samples == plain.samples).all()
    assert (model.speak("Hi.", observer=noting, **options).samples == plain.samples).all()
    assert silent.stages[1] == {}
    assert (noting.stages[1]["output-audio"] == plain.samples).all()


def test_several_observers(open_tiny: Open) -> None:
    silent, noting = Recorder(stages=False), Recorder()
    options: dict[str, Any] = {"speaker": "vivian", "max_frames": 3, "seed": 1}
    open_tiny().speak("Hi.", observer=Observers(silent, noting, Observer()), **options)
    assert silent.frames == noting.frames == [1, 2, 3]
    assert silent.pieces == noting.pieces == [(1, 1)]
    assert (silent.stages[1], noting.stages[1] != {}) == ({}, True)
    assert not Observers(silent).wants_stages


def test_a_folder_that_cannot_be_written(open_tiny: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="cannot make folder"):
        open_tiny().speak("Hi.", speaker="vivian", max_frames=2, observer=StageDump(tmp_path / "file"))


def test_codes_are_frame_major(open_tiny: Open, tmp_path: Path) -> None:
    speech = open_tiny().speak("Hi.", speaker="vivian", max_frames=4, seed=2, observer=StageDump(tmp_path))
    assert read_dump(tmp_path / "codes-full.bin").tolist() == speech.codes.astype(np.float32).tolist()
