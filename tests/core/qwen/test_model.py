"""A tiny model from request to samples, alone and from several threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.errors import ModelFileError, UsageError
from ggtts.core.qwen.model import QwenTTS, Sampling, Speech, SpeechRequest
from support.comparing import same
from support.data import CODEC, Golden
from support.device import DEVICE
from support.tolerances import WAVEFORM

Load = Callable[[str], Golden]
Gguf = Callable[..., Path]

TALKER = "Qwen3-TTS-12Hz-0.6B-CustomVoice"


@pytest.fixture(scope="module")
def model(open_tiny: Callable[..., QwenTTS]) -> QwenTTS:
    return open_tiny()


REQUEST = SpeechRequest("Hello there.", "english", "vivian", sampling=Sampling(seed=11), max_frames=12)


def test_what_a_model_tells(model: QwenTTS) -> None:
    assert (model.sample_rate, model.frame_rate) == (24000, 12.5)
    assert model.speakers[:2] == ["serena", "vivian"]
    assert "english" in model.languages
    assert (model.info.model_type, model.info.codebooks) == ("custom_voice", 16)


def test_speech(model: QwenTTS) -> None:
    counted: list[int] = []
    speech = model.speak(REQUEST, on_frame=counted.append)
    assert counted == list(range(1, speech.frames + 1))
    assert speech.codes.shape == (speech.frames, 16)
    assert speech.samples.shape == (speech.frames * 1920,)
    assert speech.samples.dtype == np.float32
    assert np.abs(speech.samples).max() <= 1
    assert (speech.seed, speech.sample_rate, speech.seconds) == (11, 24000, speech.frames * 0.08)
    assert speech.timings.total_seconds > speech.timings.first_frame_seconds > 0


def test_a_seed_repeats_the_speech_and_another_does_not(model: QwenTTS) -> None:
    first, again = model.speak(REQUEST), model.speak(REQUEST)
    assert same(first.samples, again.samples)
    other = model.speak(replace(REQUEST, sampling=Sampling(seed=12)))
    assert first.codes.tolist() != other.codes.tolist()


def test_a_drawn_seed_can_be_given_back(model: QwenTTS) -> None:
    speech = model.speak(replace(REQUEST, sampling=Sampling()))
    again = model.speak(replace(REQUEST, sampling=Sampling(seed=speech.seed)))
    assert same(speech.codes, again.codes)


def test_frames_are_those_of_the_speech(model: QwenTTS) -> None:
    assert np.stack(list(model.frames(REQUEST))).tolist() == model.speak(REQUEST).codes.tolist()


def test_frames_can_be_abandoned(model: QwenTTS) -> None:
    wanted = model.speak(REQUEST).codes[0].tolist()
    for _ in range(3):
        assert next(iter(model.frames(REQUEST))).tolist() == wanted


def test_a_resolved_request_is_spoken_as_it_is(model: QwenTTS) -> None:
    resolved = model.resolve(replace(REQUEST, sampling=Sampling()))
    assert model.speak(resolved).seed == resolved.seed


def test_unsuitable_requests_fail_before_the_first_frame(model: QwenTTS) -> None:
    with pytest.raises(UsageError, match="nobody"):
        model.frames(replace(REQUEST, speaker="nobody"))


def test_every_sampling_option_acts(model: QwenTTS) -> None:
    usual = model.speak(REQUEST).codes.tolist()
    for change in (
        {"greedy": True},
        {"temperature": 1.9},
        {"top_k": 2},
        {"top_p": 0.2},
        {"repetition_penalty": 3.0},
        {"sub_temperature": 1.9},
        {"sub_top_k": 2},
        {"sub_top_p": 0.2},
    ):
        changed = model.speak(replace(REQUEST, sampling=replace(REQUEST.sampling, **change)))
        assert changed.codes.tolist() != usual, change


def test_threads_share_the_weights_and_nothing_else(model: QwenTTS) -> None:
    requests = [replace(REQUEST, text=text) for text in ("One.", "Two and three.", "Four, five, six.")]
    alone = [model.speak(request).samples for request in requests]
    with ThreadPoolExecutor(3) as pool:
        together: list[Speech] = list(pool.map(model.speak, requests * 3))
    for index, speech in enumerate(together):
        assert same(speech.samples, alone[index % 3])


@pytest.mark.parametrize("options", [{"plain_attention": True}, {"clamp_fp16": True}, {"kv_type": "f16"}])
def test_ways_to_compute_agree(open_tiny: Callable[..., QwenTTS], options: dict[str, object]) -> None:
    request = replace(REQUEST, sampling=Sampling(greedy=True))
    exact = open_tiny(kv_type="f32").speak(request)
    other = open_tiny(**{"kv_type": "f32", **options}).speak(request)
    assert other.codes[0].tolist() == exact.codes[0].tolist()


def test_a_full_context_ends_the_speech(tiny_gguf: Gguf, model: QwenTTS) -> None:
    engine = Engine(DEVICE, threads=1)
    talker = engine.weights(tiny_gguf(TALKER))
    talker.metadata["qwen3-tts.talker.context_length"] = 25
    small = QwenTTS(engine, talker, engine.weights(tiny_gguf(CODEC)), kv_type="f16")
    request = replace(REQUEST, sampling=Sampling(seed=11), max_frames=50)
    cut, whole = small.speak(request), model.speak(request)
    assert (cut.stop, whole.stop != "context") == ("context", True)
    assert 1 < cut.frames < whole.frames
    assert same(cut.codes, whole.codes[: cut.frames])
    with pytest.raises(UsageError, match="the text is too long"):
        small.speak(replace(request, text="far too long for it " * 10))


def test_a_text_with_options_is_a_request(model: QwenTTS) -> None:
    wanted = model.speak(replace(REQUEST, sampling=Sampling(seed=11, top_k=3)))
    options = {"speaker": "vivian", "language": "english", "max_frames": 12, "seed": 11, "top_k": 3}
    assert same(model.speak("Hello there.", **options).samples, wanted.samples)  # type: ignore[arg-type]
    assert np.stack(list(model.frames("Hello there.", **options))).tolist() == wanted.codes.tolist()
    assert model.resolve("Hello there.", **options).predictor.top_k == 50


def test_options_that_cannot_be(model: QwenTTS) -> None:
    with pytest.raises(TypeError, match=r"unknown option speeker; accepted: .*speaker"):
        model.speak("Hello.", speeker="vivian")
    with pytest.raises(TypeError, match="a SpeechRequest is complete: seed"):
        model.speak(REQUEST, seed=3)
    with pytest.raises(TypeError, match="a resolved request is complete: seed"):
        model.speak(model.resolve(REQUEST), seed=3)


@pytest.mark.parametrize("frames", [1, 5, 300])
def test_decoding_in_chunks_changes_nothing(model: QwenTTS, frames: int) -> None:
    speech = model.speak(REQUEST, codec_chunk_frames=frames)
    assert same(speech.samples, model.decode(speech.codes))


def test_threads_of_the_engine_change_nothing(open_tiny: Callable[..., QwenTTS], model: QwenTTS) -> None:
    assert same(open_tiny(threads=3).speak(REQUEST).samples, model.speak(REQUEST).samples)


def test_the_first_speaker_where_that_is_wanted(open_tiny: Callable[..., QwenTTS]) -> None:
    request = replace(REQUEST, speaker=None)
    with pytest.raises(UsageError, match="needs speaker, one of"):
        open_tiny().speak(request)
    assert open_tiny(default_to_first_speaker=True).resolve(request).speaker == "serena"


def test_files_of_another_kind(tiny_gguf: Gguf, tmp_path: Path) -> None:
    talker, codec = tiny_gguf(TALKER), tiny_gguf(CODEC)
    with pytest.raises(ModelFileError, match="qwen3-tts-tokenizer"):
        QwenTTS.open(codec, codec, device=DEVICE)
    with pytest.raises(ModelFileError, match="'qwen3-tts'"):
        QwenTTS.open(talker, talker, device=DEVICE)
    with pytest.raises(ModelFileError, match=r"missing\.gguf"):
        QwenTTS.open(tmp_path / "missing.gguf", codec, device=DEVICE)


def test_files_that_do_not_belong_together(tiny_gguf: Gguf) -> None:
    engine = Engine(DEVICE, threads=1)
    talker, codec = engine.weights(tiny_gguf(TALKER)), engine.weights(tiny_gguf(CODEC))
    talker.metadata["qwen3-tts.code_pred.vocab_size"] = 4096
    with pytest.raises(ModelFileError, match="do not belong together"):
        QwenTTS(engine, talker, codec)


def test_unknown_cache_types(open_tiny: Callable[..., QwenTTS]) -> None:
    with pytest.raises(UsageError, match="q8"):
        open_tiny(kv_type="q8")


def test_closing_twice_is_harmless(open_tiny: Callable[..., QwenTTS]) -> None:
    with open_tiny() as opened:
        opened.speak(REQUEST)
        opened.close()


SPOKEN = [
    "0.6B-Base_english_full",
    "0.6B-CustomVoice_eric_auto_dialect",
    "1.7B-CustomVoice_eric_dialect_instruct",
    "1.7B-VoiceDesign_design_en",
]


@pytest.mark.parametrize("name", SPOKEN)
def test_text_to_samples_as_the_official_package(
    name: str, golden: Load, open_tiny: Callable[..., QwenTTS]
) -> None:
    case = golden(name)
    request = SpeechRequest(
        case.meta["text"],
        case.meta["language"],
        case.meta["speaker"],
        case.meta["instruct"],
        Sampling(greedy=True),
        max_frames=case.meta["max_new_tokens"] - 1,
    )
    speech = open_tiny(case.meta["checkpoint"], kv_type="f32").speak(request)
    assert speech.codes.tolist() == case["codes"].tolist()
    assert speech.samples.shape == case["wav"].shape
    assert np.abs(speech.samples - case["wav"]).max() < WAVEFORM


def test_a_batch_of_the_official_package_row_by_row(golden: Load, open_tiny: Callable[..., QwenTTS]) -> None:
    case, model = golden("batch_0.6B-CustomVoice"), open_tiny(kv_type="f32")
    voices = [("vivian", "english"), ("eric", "auto"), ("ryan", "auto")]
    for index, (text, (speaker, language)) in enumerate(zip(case.meta["texts"], voices, strict=True)):
        wave = case[f"wav{index}"]
        speech = model.speak(
            text, speaker=speaker, language=language, greedy=True, max_frames=len(wave) // 1920
        )
        assert np.abs(speech.samples - wave).max() < WAVEFORM
