"""Comparisons of models, on the tiny ones of every architecture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.convert import quality_talker
from ggtts.core.convert.quality import (
    QualityReport,
    compare_models,
    cosine,
    divergence,
    signal_to_noise,
    spectral_distance,
)
from ggtts.core.convert.quality_recording import babble
from ggtts.core.convert.quantize import quantize
from ggtts.core.errors import ModelFileError

NAMES = (
    "Qwen3-TTS-12Hz-0.6B-Base",
    "Qwen3-TTS-12Hz-1.7B-VoiceDesign",
    "Qwen3-TTS-12Hz-0.6B-CustomVoice",
    "Qwen3-TTS-Tokenizer-12Hz",
    "OmniVoice",
    "OmniVoice-tokenizer",
)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality_talker, "FRAMES", 6)
    monkeypatch.setattr(quality_talker, "TEXTS", quality_talker.TEXTS[:2])


def compared(tiny_gguf: Callable[..., Path], tmp_path: Path, name: str, type_name: str) -> QualityReport:
    reference = tiny_gguf(name)
    quantised = tmp_path / f"{type_name}.gguf"
    quantize(reference, quantised, type_name)
    return compare_models(reference, quantised, device="cpu")


@pytest.mark.parametrize("name", NAMES)
def test_every_architecture(tiny_gguf: Callable[..., Path], tmp_path: Path, name: str) -> None:
    same = compare_models(tiny_gguf(name), tiny_gguf(name), device="cpu")
    assert [stage.cosine for stage in same.stages] == pytest.approx([1.0] * len(same.stages), abs=1e-9)
    assert all(agreement.same == agreement.total > 0 for agreement in same.agreements)
    assert same.verdict.startswith("as good as the reference")
    found = compared(tiny_gguf, tmp_path, name, "Q8_0")
    assert (found.reference.file_type, found.quantised.file_type) == ("F32", "Q8_0")
    assert found.quantised.size < found.reference.size
    assert all(
        0.9 < stage.cosine <= 1 + 1e-9 and stage.lowest <= stage.cosine + 1e-9 for stage in found.stages
    )
    assert any(stage.cosine < 1 - 1e-9 for stage in found.stages)
    assert len({stage.name for stage in found.stages}) == len(found.stages)
    values = found.as_json()
    assert values["agreements"][0]["share"] == found.agreements[0].share


def test_fewer_bits_are_worse(tiny_gguf: Callable[..., Path], tmp_path: Path) -> None:
    def final(type_name: str) -> float:
        report = compared(tiny_gguf, tmp_path, NAMES[0], type_name)
        return next(stage.cosine for stage in report.stages if stage.name == "final")

    scores = [final(name) for name in ("Q4_0", "Q8_0", "F16")]
    assert scores == sorted(scores)


def test_talkers_with_a_codec(tiny_gguf: Callable[..., Path]) -> None:
    talker = tiny_gguf(NAMES[0])
    report = compare_models(talker, talker, tiny_gguf("Qwen3-TTS-Tokenizer-12Hz"), device="cpu")
    assert report.figures[-1].name == "spectral distance of the best codes"
    assert report.figures[-1].value == 0


def test_the_names_of_a_talkers_stages(tiny_gguf: Callable[..., Path]) -> None:
    report = compare_models(tiny_gguf(NAMES[0]), tiny_gguf(NAMES[0]), device="cpu")
    names = [stage.name for stage in report.stages]
    assert names[:2] == ["prompt rows", "layer 0"]
    assert names[-4:] == [
        "logits of code 0",
        "hidden state of frames",
        "logits of the predictor",
        "speaker embedding",
    ]
    assert [agreement.name.strip() for agreement in report.agreements][:2] == [
        "code 0",
        "codes of the predictor",
    ]


def test_different_models_are_refused(tiny_gguf: Callable[..., Path]) -> None:
    with pytest.raises(ModelFileError, match=r"is a qwen3-tts file, .* a omnivoice-lm file"):
        compare_models(tiny_gguf(NAMES[0]), tiny_gguf("OmniVoice"), device="cpu")
    with pytest.raises(ModelFileError, match="differs or is missing"):
        compare_models(tiny_gguf(NAMES[0]), tiny_gguf(NAMES[1]), device="cpu")


def test_measures() -> None:
    ones, half = np.ones(4096, np.float32), np.full(4096, 0.5, np.float32)
    assert cosine(ones, half) == pytest.approx(1)
    assert cosine(ones, -ones) == pytest.approx(-1)
    assert cosine(np.zeros(2), np.zeros(2)) == 1
    assert signal_to_noise(ones, half) == pytest.approx(6.02, abs=0.01)
    assert signal_to_noise(ones, ones) == 200
    noise = np.random.default_rng(0).standard_normal(8192).astype(np.float32)
    assert spectral_distance(noise, noise) == 0
    assert spectral_distance(noise, noise * 2) == pytest.approx(6.02, abs=0.1)
    assert spectral_distance(noise[:10], noise[:10]) == 0
    assert divergence(np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]]))[0] == pytest.approx(0.1438, abs=1e-4)
    ruled_out = np.array([0.0, -np.inf])
    assert divergence(ruled_out, ruled_out) == 0


def test_the_recording_is_the_same_everywhere() -> None:
    samples = babble(24000)
    assert samples.shape == (72000,)
    assert np.abs(samples).max() == pytest.approx(0.5)
    assert np.abs(samples).mean() > 0.01
    np.testing.assert_array_equal(samples, babble(24000))
