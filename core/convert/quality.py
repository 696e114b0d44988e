"""How well a quantised model still does what the model it was made of does.

Both are given the same fixed prompts and recordings, and both the same history: the codes that the reference chose. So
every number is about one step, not about how two different utterances drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Weights
from ..errors import ModelFileError
from ..formats.gguf_types import file_type_name
from ..formats.omnivoice import BASE_ARCHITECTURE
from ..formats.omnivoice import CODEC_ARCHITECTURE as OMNIVOICE_CODEC_ARCHITECTURE
from ..formats.qwen import CODEC_ARCHITECTURE, TALKER_ARCHITECTURE

FloatArray = NDArray[np.float32]

MODELS = (TALKER_ARCHITECTURE, BASE_ARCHITECTURE)
CODECS = (CODEC_ARCHITECTURE, OMNIVOICE_CODEC_ARCHITECTURE)


@dataclass(frozen=True)
class Stage:
    """Where in the model, and how alike the values of both are: cosine over all prompts together, and of the worst."""

    name: str
    cosine: float
    lowest: float


@dataclass(frozen=True)
class Agreement:
    """How many of so many decisions are the same in both."""

    name: str
    same: int
    total: int

    @property
    def share(self) -> float:
        """0 to 1."""
        return self.same / self.total if self.total else 1.0


@dataclass(frozen=True)
class Figure:
    """Any other number, with its unit; `better` says which way: "high" or "low"."""

    name: str
    value: float
    unit: str
    better: str


@dataclass(frozen=True)
class ModelSummary:
    """A file, what its metadata calls its type, and its bytes."""

    path: str
    file_type: str
    size: int


@dataclass(frozen=True)
class QualityReport:
    """The comparison of two files of one architecture; `basis` says in words what it rests on."""

    architecture: str
    reference: ModelSummary
    quantised: ModelSummary
    basis: str
    stages: Sequence[Stage]
    agreements: Sequence[Agreement]
    figures: Sequence[Figure]
    verdict: str

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values, shares included."""
        agreements = [asdict(agreement) | {"share": agreement.share} for agreement in self.agreements]
        return asdict(self) | {"agreements": agreements}


@dataclass(frozen=True)
class Scale:
    """What figures of a unit mean to a listener: their upper limits, and what to expect up to each."""

    limits: Sequence[tuple[float, str]]

    def grade(self, value: float) -> str:
        """Return what to expect of a value."""
        return next((text for limit, text in self.limits if value <= limit), NOT_USABLE)


NOT_USABLE = "not usable: take a larger type"
_WORDS = (
    "as good as the reference to the ear",
    "close to the reference, differences are hard to hear",
    "usable, some of it will sound different",
    "noticeably worse than the reference",
)
DIVERGENCE = Scale(tuple(zip((0.005, 0.04, 0.12, 0.35), _WORDS, strict=True)))
"""Of mean divergences in nats. Measured on the demo voice: Q8_0 0.001, Q5_K_M 0.007, Q4_K_M 0.03, Q3_K_M 0.12."""

DISTANCE = Scale(tuple(zip((0.3, 0.8, 2.0, 4.0), _WORDS, strict=True)))
"""Of mean differences of log spectra in dB; a just noticeable difference of level is about 1 dB."""


@dataclass(frozen=True)
class Findings:
    """What a comparison of one architecture found; the verdict goes by the worst of the `decisive` figures."""

    basis: str
    stages: Sequence[Stage]
    agreements: Sequence[Agreement]
    figures: Sequence[Figure]
    decisive: Sequence[str]
    scale: Scale


def compare_models(
    reference: str | PathLike[str],
    quantised: str | PathLike[str],
    codec: str | PathLike[str] | None = None,
    *,
    device: str | None = None,
    threads: int | None = None,
) -> QualityReport:
    """Compare a quantised file with the file it was made of.

    Args:
        reference: talker, language model or codec of either family, best in F32 or BF16.
        quantised: of the same model.
        codec: the codec of a talker: then what both would say is compared as sound too.
        device: as `Engine` takes it.
        threads: as `Engine` takes it.

    Raises:
        ModelFileError: a file is damaged, unknown, or the two are not the same model.
        EngineError: the device cannot be used or has no memory left.
    """
    engine = Engine(device, threads)
    weights = engine.weights(reference), engine.weights(quantised)
    architecture = _require_same_model(*weights)
    findings = _compare(architecture, engine, weights, None if codec is None else engine.weights(codec))
    return QualityReport(
        architecture,
        _summary(weights[0]),
        _summary(weights[1]),
        basis=findings.basis,
        stages=findings.stages,
        agreements=findings.agreements,
        figures=findings.figures,
        verdict=_verdict(findings),
    )


def _summary(weights: Weights) -> ModelSummary:
    return ModelSummary(weights.path, file_type_name(weights.metadata), Path(weights.path).stat().st_size)


def _compare(
    architecture: str, engine: Engine, weights: tuple[Weights, Weights], codec: Weights | None
) -> Findings:
    if architecture in CODECS:
        from .quality_codec import compare_codecs

        return compare_codecs(architecture, engine, *weights)
    if architecture == TALKER_ARCHITECTURE:
        from .quality_talker import compare_talkers

        return compare_talkers(engine, *weights, codec)
    from .quality_omnivoice import compare_language_models

    return compare_language_models(engine, *weights)


def _require_same_model(reference: Weights, quantised: Weights) -> str:
    for weights in (reference, quantised):
        if weights.architecture not in (*MODELS, *CODECS):
            known = ", ".join((*MODELS, *CODECS))
            raise ModelFileError(
                f"{weights.path}: states architecture {weights.architecture!r} (known: {known})"
            )
    if reference.architecture != quantised.architecture:
        raise ModelFileError(
            f"{reference.path} is a {reference.architecture} file, {quantised.path} a {quantised.architecture} file"
        )
    for name in reference.names():
        if name not in quantised or reference.shape(name) != quantised.shape(name):
            raise ModelFileError(
                f"{quantised.path} is not {reference.path} quantised: {name} differs or is missing"
            )
    return reference.architecture


def cosine(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the cosine of two arrays as vectors, in float64; 1 for two that are all zero."""
    a, b = first.astype(np.float64).reshape(-1), second.astype(np.float64).reshape(-1)
    product = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / product if product else float(np.array_equal(a, b))


def stages_of(pairs: Mapping[str, Sequence[tuple[NDArray[Any], NDArray[Any]]]]) -> list[Stage]:
    """Return the stages of pairs of arrays by name, one pair for each prompt."""
    return [_stage(name, arrays) for name, arrays in pairs.items() if arrays]


def _stage(name: str, pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> Stage:
    together = [np.concatenate([array.reshape(-1) for array in side]) for side in zip(*pairs, strict=True)]
    return Stage(name, cosine(*together), min(cosine(*pair) for pair in pairs))


def signal_to_noise(reference: FloatArray, other: FloatArray) -> float:
    """Return how much stronger a signal is than what another one has besides it, in dB; 200 for two that are equal."""
    length = min(len(reference), len(other))
    signal = reference[:length].astype(np.float64)
    noise = float(np.sum((signal - other[:length]) ** 2))
    power = float(np.sum(signal**2))
    return 200.0 if noise == 0 else float(np.clip(10 * np.log10(max(power, 1e-30) / noise), -200, 200))


def spectral_distance(reference: FloatArray, other: FloatArray, size: int = 1024) -> float:
    """Return the mean difference of two log spectra in dB, over frequencies within 60 dB of the loudest."""
    spectra = [_spectrum(samples, size) for samples in (reference, other)]
    length = min(len(spectrum) for spectrum in spectra)
    first, second = (spectrum[:length] for spectrum in spectra)
    if not length:
        return 0.0
    floor = max(float(first.max()) * 1e-3, 1e-9)
    levels = [20 * np.log10(np.maximum(spectrum, floor)) for spectrum in (first, second)]
    heard = np.maximum(first, second) > floor
    return float(np.abs(levels[0] - levels[1])[heard].mean()) if heard.any() else 0.0


def divergence(one: FloatArray, other: FloatArray) -> NDArray[np.float64]:
    """Return the Kullback-Leibler divergences [...] in nats of distributions given as logits [..., entries].

    Entries that `one` rules out (minus infinity) count for nothing.
    """
    p, q = _log_softmax(one), _log_softmax(other)
    possible = np.isfinite(p)
    terms = np.where(possible, np.exp(p) * (np.where(possible, p, 0) - np.where(np.isfinite(q), q, 0)), 0)
    total: NDArray[np.float64] = terms.sum(-1)
    return total


def _log_softmax(logits: FloatArray) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    normalised: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return normalised


def _spectrum(samples: FloatArray, size: int) -> NDArray[np.float64]:
    """Magnitudes [windows, frequencies] of half-overlapping Hann windows."""
    count = max((len(samples) - size) // (size // 2) + 1, 0)
    starts = np.arange(count)[:, None] * (size // 2)
    windows = samples[starts + np.arange(size)] * np.hanning(size)
    return np.abs(np.fft.rfft(windows, axis=-1))


def _verdict(findings: Findings) -> str:
    deciding = [figure for figure in findings.figures if figure.name in findings.decisive]
    worst = max(deciding, key=lambda figure: figure.value)
    return f"{findings.scale.grade(worst.value)} ({worst.name} {worst.value:.4g} {worst.unit})"
