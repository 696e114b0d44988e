"""Opening a model by its files alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ggtts.core.errors import ModelFileError, UsageError
from ggtts.core.omnivoice.model import OmniVoice
from ggtts.core.opening import open_model
from ggtts.core.qwen.model import QwenTTS
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC
from support.random_weights import write_weights

Gguf = Callable[..., Path]

TALKER = "Qwen3-TTS-12Hz-0.6B-CustomVoice"


def test_a_talker_and_its_codec(tiny_gguf: Gguf) -> None:
    with open_model(
        str(tiny_gguf(TALKER)), tiny_gguf(CODEC), device="cpu", threads=1, kv_type="f32"
    ) as model:
        assert model.info.model_type == "custom_voice"
        assert model.speak("Hello.", speaker="vivian", max_frames=2).frames == 2
        with pytest.raises(UsageError, match="needs speaker, one of"):
            model.resolve("Hello.")


def test_the_demo_voice_knows_its_habits() -> None:
    model = open_model(device="cpu", threads=1)
    assert model.resolve("Hello.").speaker == model.speakers[0]
    assert model.resolve("Hello.").words == 20


def test_one_file_without_the_other(tiny_gguf: Gguf) -> None:
    with pytest.raises(UsageError, match="a talker file needs a codec file too"):
        open_model(tiny_gguf(TALKER))
    with pytest.raises(UsageError, match="a codec file needs a talker file too"):
        open_model(codec=tiny_gguf(CODEC))


def test_files_that_do_not_speak(tiny_gguf: Gguf, tmp_path: Path) -> None:
    codec = tiny_gguf(CODEC)
    with pytest.raises(ModelFileError, match="is a Qwen3-TTS codec: name the talker first"):
        open_model(codec, tiny_gguf(TALKER), device="cpu")
    with pytest.raises(ModelFileError, match="'qwen3-tts-tokenizer'"):
        open_model(tiny_gguf(TALKER), tiny_gguf(TALKER), device="cpu")
    foreign = write_weights(tmp_path / "foreign.gguf", {})
    with pytest.raises(
        ModelFileError, match=r"foreign\.gguf: is a model of architecture 'test', but a Qwen3-TTS talker"
    ):
        open_model(foreign, codec, device="cpu")
    with pytest.raises(ModelFileError, match=r"missing\.gguf"):
        open_model(tmp_path / "missing.gguf", codec, device="cpu")


def test_the_file_says_which_family_it_is(tiny_gguf: Gguf) -> None:
    model = open_model(tiny_gguf(OMNIVOICE), tiny_gguf(OMNIVOICE_CODEC), device="cpu", threads=1)
    assert isinstance(model, OmniVoice)
    assert isinstance(open_model(tiny_gguf(TALKER), tiny_gguf(CODEC), device="cpu", threads=1), QwenTTS)


def test_options_are_checked(tiny_gguf: Gguf) -> None:
    with pytest.raises(UsageError, match="q8"):
        open_model(tiny_gguf(TALKER), tiny_gguf(CODEC), device="cpu", kv_type="q8")
    with pytest.raises(UsageError, match="threads"):
        open_model(tiny_gguf(TALKER), tiny_gguf(CODEC), device="cpu", threads=0)
