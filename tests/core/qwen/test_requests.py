"""Requests: what suits which model, names, dialects, defaults of sampling."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import pytest

from ggtts.core.errors import ModelFileError, UsageError
from ggtts.core.formats.qwen import Speaker
from ggtts.core.qwen.requests import Habits, Sampling, SpeechRequest, resolve_request, sampling_options
from support.talker_files import NO_DEFAULTS, talker_file

CUSTOM, BASE, DESIGN = talker_file(), talker_file("base"), talker_file("voice_design")


def request(text: str = "Hello.", **values: Any) -> SpeechRequest:
    return SpeechRequest(text, **values)


@pytest.mark.parametrize(
    ("language", "speaker", "resolved"),
    [
        ("auto", "serena", ("auto", None)),
        ("AUTO", "Serena", ("auto", None)),
        ("English", "serena", ("english", 50)),
        ("sichuan_dialect", "serena", ("Sichuan_dialect", 62)),
        ("auto", "eric", ("Sichuan_dialect", 62)),
        ("Chinese", "ERIC", ("Sichuan_dialect", 62)),
        ("english", "eric", ("english", 50)),
    ],
)
def test_languages_and_dialects(language: str, speaker: str, resolved: tuple[str, int | None]) -> None:
    found = resolve_request(request(language=language, speaker=speaker), CUSTOM)
    assert (found.language, found.language_id) == resolved
    assert (found.speaker, found.speaker_id) == (
        ("serena", 900) if speaker.lower() == "serena" else ("Eric", 901)
    )


def test_a_base_model_has_no_speaker() -> None:
    found = resolve_request(request(language="chinese"), BASE)
    assert (found.language_id, found.speaker, found.speaker_id, found.instruct) == (55, None, None, None)


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        (CUSTOM, {"speaker": "serina"}, r"unknown speaker 'serina', did you mean serena"),
        (CUSTOM, {"speaker": ""}, "unknown speaker ''"),
        (CUSTOM, {}, "needs speaker, one of: serena, Eric"),
        (CUSTOM, {"speaker": "serena", "language": "Klingonese"}, "unknown language 'Klingonese'"),
        (CUSTOM, {"speaker": "serena", "language": "en"}, "unknown language 'en'"),
        (BASE, {"speaker": "serena"}, "speaker 'serena' needs a custom_voice model; this one is base"),
        (DESIGN, {"speaker": "serena", "instruct": "Warm."}, "this one is voice_design"),
        (
            BASE,
            {"instruct": "Warm."},
            "instruct needs a custom_voice or voice_design model; this one is base",
        ),
        (BASE, {"instruct": ""}, "instruct needs"),
        (DESIGN, {}, "needs instruct"),
        (DESIGN, {"instruct": " \n"}, "needs instruct"),
        (BASE, {"text": ""}, "nothing to say"),
        (BASE, {"text": " \t\n"}, "nothing to say"),
        (BASE, {"max_frames": 0}, "max_frames 0"),
        (BASE, {"sampling": Sampling(top_p=1.5)}, "top-p 1.5"),
        (BASE, {"sampling": Sampling(temperature=math.nan)}, "temperature nan"),
        (BASE, {"sampling": Sampling(sub_temperature=math.inf)}, "temperature inf"),
        (BASE, {"sampling": Sampling(repetition_penalty=0.0)}, "repetition penalty 0.0"),
        (BASE, {"sampling": Sampling(seed=2**64)}, "seed"),
        (BASE, {"sampling": Sampling(temperature="hot")}, "temperature is 'hot', which is no number or None"),
        (BASE, {"sampling": Sampling(top_k=math.nan)}, "top_k is nan, which is no whole number or None"),
        (BASE, {"sampling": {"seed": 1}}, "which is no Sampling"),
        (BASE, {"text": None}, "text is None, which is no str"),
        (BASE, {"text": b"Hello."}, "text is b'Hello.'"),
        (CUSTOM, {"speaker": 3}, "speaker is 3, which is no str or None"),
        (BASE, {"language": None}, "language is None"),
        (BASE, {"voice": "voice.wav"}, "voice is 'voice.wav', which is no Voice or None"),
        (BASE, {"max_frames": 2.5}, "max_frames is 2.5"),
        (BASE, {"sampling": Sampling(seed="7")}, "seed is '7'"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_right(file: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_request(request(**values), file)


def test_only_the_demo_voice_chooses_a_speaker_itself() -> None:
    habits = Habits(first_speaker=True)
    assert resolve_request(request(), CUSTOM, habits).speaker == "serena"
    assert resolve_request(request(speaker="eric"), CUSTOM, habits).speaker == "Eric"


def test_instructions_reach_the_models_that_follow_them() -> None:
    assert resolve_request(request(speaker="eric", instruct="Softly."), CUSTOM).instruct == "Softly."
    assert resolve_request(request(speaker="eric", instruct=""), CUSTOM).instruct is None
    assert resolve_request(request(instruct="A deep voice."), DESIGN).instruct == "A deep voice."


def test_a_small_custom_voice_model_ignores_instructions_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    small = replace(CUSTOM, model_size="0.6b")
    with caplog.at_level(logging.WARNING):
        found = resolve_request(request(speaker="eric", instruct="Softly."), small)
    assert found.instruct is None
    assert len(found.warnings) == 1
    assert "the instruction is ignored" in found.warnings[0]
    assert caplog.messages == list(found.warnings)


def test_a_dialect_that_is_no_language_is_a_fault_of_the_file() -> None:
    broken = replace(CUSTOM, speakers={"eric": Speaker(901, "atlantic")})
    with pytest.raises(ModelFileError, match="'atlantic'"):
        resolve_request(request(speaker="eric"), broken)


def test_seeds_are_kept_or_drawn() -> None:
    assert resolve_request(request(sampling=Sampling(seed=42)), BASE).seed == 42
    drawn = {
        resolve_request(request(sampling=Sampling(seed=seed)), BASE).seed for seed in (None, None, -1, -7)
    }
    assert len(drawn) == 4
    assert min(drawn) >= 0


def test_sampling_defaults_of_the_official_package() -> None:
    talker, predictor = sampling_options(Sampling(), NO_DEFAULTS)
    assert (talker.do_sample, talker.temperature, talker.top_k, talker.top_p) == (True, 0.9, 50, 1.0)
    assert talker.repetition_penalty == 1.05
    assert (predictor.do_sample, predictor.temperature, predictor.top_k, predictor.top_p) == (
        True,
        0.9,
        50,
        1.0,
    )
    assert predictor.repetition_penalty == 1.0


def test_the_file_comes_before_the_defaults_and_the_request_before_the_file() -> None:
    defaults = replace(NO_DEFAULTS, temperature=0.7, top_k=20, sub_top_p=0.5, sub_do_sample=False)
    talker, predictor = sampling_options(Sampling(top_k=7, sub_temperature=0.3), defaults)
    assert (talker.temperature, talker.top_k) == (0.7, 7)
    assert (predictor.temperature, predictor.top_p, predictor.greedy) == (0.3, 0.5, True)


def test_greedy_means_both_stacks() -> None:
    assert all(options.greedy for options in sampling_options(Sampling(greedy=True), NO_DEFAULTS))


def test_zero_and_less_switch_off() -> None:
    talker, predictor = sampling_options(
        Sampling(temperature=-1, top_k=-5, sub_temperature=0, sub_top_k=0), NO_DEFAULTS
    )
    assert (talker.greedy, talker.top_k) == (True, 0)
    assert (predictor.greedy, predictor.top_k) == (True, 0)
