"""Two OmniVoice language models on the same prompts and the same half-filled frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Weights
from ..formats.omnivoice import OmniVoiceFile
from ..omnivoice.backbone import Backbone
from ..omnivoice.maskgit import MaskGit, MaskGitOptions, Progress
from ..omnivoice.prompt import OmniPrompt, build_prompt
from ..text.tokenizer import TextTokenizer
from .quality import DIVERGENCE, Agreement, Figure, Findings, divergence, stages_of

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]
Trace = dict[str, FloatArray]

TEXTS: Sequence[tuple[str, str]] = (
    ("en", "The quick brown fox jumps over the lazy dog."),
    ("zh", "今天天气很好，我们一起去公园散步吧。"),
    ("de", "Morgen früh fahren wir mit dem Zug nach Köln."),
)
FRAMES = 50
"""Two seconds."""

OPTIONS = MaskGitOptions(steps=16)
SEED = 7
LOOKED_AT = (0.0, 0.4, 0.8)
"""How far the frames are filled in where both models are asked, as shares of the steps."""

BEST_CODES, CODE_DIVERGENCE = "best codes", "divergence of the codes"


def compare_language_models(engine: Engine, reference: Weights, quantised: Weights) -> Findings:
    """Compare two language models."""
    one, other = _opened(engine, reference), _opened(engine, quantised)
    tokenizer = TextTokenizer.from_metadata(reference.metadata, source=reference.path)
    file = one.backbone.file
    pairs: list[tuple[Trace, Trace]] = []
    masked: list[NDArray[np.bool_]] = []
    for language, text in TEXTS:
        prompt = build_prompt(tokenizer, text, language=language)
        for codes in _states(one, prompt):
            pairs.append((one.trace(prompt, codes, OPTIONS), other.trace(prompt, codes, OPTIONS)))
            masked.append((codes == file.mask_code).T)
    guided = [tuple(_guided(trace, file.mask_code) for trace in pair) for pair in pairs]
    same = [(a.argmax(-1) == b.argmax(-1)) for a, b in guided]
    found = {
        name.removeprefix("cond_"): [(a[name], b[name]) for a, b in pairs]
        for name in pairs[0][0]
        if name.startswith("cond_")
    }
    stages = stages_of({_stage_name(name): arrays for name, arrays in found.items()})
    basis = f"{len(TEXTS)} prompts of {FRAMES} frames, each at {len(LOOKED_AT)} steps of the reference"
    figures = [Figure(CODE_DIVERGENCE, _divergence(guided, masked), "nats", "low")]
    return Findings(basis, stages, _agreements(same, masked), figures, (CODE_DIVERGENCE,), DIVERGENCE)


def _opened(engine: Engine, weights: Weights) -> MaskGit:
    file = OmniVoiceFile.from_metadata(weights.metadata, weights.path)
    return MaskGit(Backbone(weights, file, engine))


def _states(model: MaskGit, prompt: OmniPrompt) -> list[IntArray]:
    """Return codes [frames, codebooks] as they are before some of the reference's steps."""
    file = model.backbone.file
    states = [np.full((FRAMES, file.codebooks), file.mask_code, np.int32)]

    def note(progress: Progress) -> None:
        states.append(progress.codes)

    model.generate(prompt, FRAMES, OPTIONS, SEED, note)
    return [states[int(share * (len(states) - 1))] for share in LOOKED_AT]


def _guided(trace: Trace, mask_code: int) -> FloatArray:
    """Return the logits [codebooks, frames, vocabulary] that decide; the mask is no code."""
    conditional = trace["cond_logits"]
    logits: FloatArray = conditional + OPTIONS.guidance * (conditional - trace["uncond_logits"])
    logits[..., mask_code] = -np.inf
    return logits


def _agreements(same: Sequence[NDArray[np.bool_]], masked: Sequence[NDArray[np.bool_]]) -> list[Agreement]:
    def count(name: str, first: int, last: int | None) -> Agreement:
        parts = [a[first:last][b[first:last]] for a, b in zip(same, masked, strict=True)]
        return Agreement(name, int(sum(part.sum() for part in parts)), sum(part.size for part in parts))

    return [
        count(BEST_CODES, 0, None),
        count("  code 0", 0, 1),
        count("  the other codes", 1, None),
    ]


def _divergence(guided: Sequence[tuple[FloatArray, ...]], masked: Sequence[NDArray[np.bool_]]) -> float:
    """Mean over all places that are still to be filled in."""
    found = [
        divergence(one[places], other[places]) for (one, other), places in zip(guided, masked, strict=True)
    ]
    return float(np.concatenate(found).mean())


def _stage_name(name: str) -> str:
    if name == "embeds":
        return "prompt rows"
    return name.replace("layer", "layer ")
