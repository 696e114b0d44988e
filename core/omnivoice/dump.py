"""The stages of a run under the names of the omnivoice.cpp validation harness."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .maskgit import MaskGit, MaskGitOptions
from .prompt import OmniPrompt
from .scoring import Guess

Stages = dict[str, NDArray[Any]]


def first_step_stages(maskgit: MaskGit, prompt: OmniPrompt, frames: int, options: MaskGitOptions) -> Stages:
    """Compute the stages of the first step for a prompt.

    The unconditional row is as long as its frames; the harness pads it to the length of the other.
    """
    file = maskgit.backbone.file
    masked = np.full((frames, file.codebooks), file.mask_code, np.int32)
    audio = masked if prompt.reference is None else np.concatenate([prompt.reference, masked])
    stages: Stages = {
        "prompt-cond-ids": np.concatenate([prompt.tokens, audio[:, 0]]),
        "prompt-uncond-ids": masked[:, 0],
    }
    traced = maskgit.trace(prompt, masked, options)
    for name, values in traced.items():
        row, _, stage = name.partition("_")
        stages[_harness_name(row, stage)] = values
    conditional = traced["cond_logits"]
    guided = conditional
    if "uncond_logits" in traced:
        guided = conditional + np.float32(options.guidance) * (conditional - traced["uncond_logits"])
    stages["mg-log-probs-step0"] = _log_probabilities(guided, file.mask_code)
    return stages


def guess_stages(guess: Guess, codebooks: int) -> Stages:
    """Return what the first step found, when all places were masked; both are [codebooks, frames]."""
    return {
        "mg-pred-tokens-step0": guess.codes.reshape(codebooks, -1),
        "mg-scores-step0": guess.scores.reshape(codebooks, -1),
    }


def reference_stages(stages: Stages, margin: int) -> Stages:
    """Return the stages of the codec's encoder, without those that the harness does not have.

    Args:
        stages: as `OmniVoiceCodec.encode_stages` names them, each [time, width].
        margin: zeros before and behind the samples that HuBERT hears.
    """
    found: Stages = {}
    for name, values in stages.items():
        if name == "wav_16k":
            found["ref-audio-16k"] = values[margin : len(values) - margin, 0]
        elif name.startswith("hubert_conv"):
            found["hubert-feat-extract"] = values.T  # the last one stays
        elif name.startswith("hubert_layer"):
            found[f"hubert-l{name.removeprefix('hubert_layer')}"] = values
        elif name in _REFERENCE_NAMES:
            found[_REFERENCE_NAMES[name]] = values
    return found


_REFERENCE_NAMES = {
    "hubert_projection": "hubert-feat-proj",
    "hubert_hidden0": "hubert-enc-init",
    "semantic_features": "ref-hubert-features",
}


def _harness_name(row: str, stage: str) -> str:
    if stage == "logits":
        return f"lm-logits-step0-{row}"
    name = f"lm-hidden-step0-{row}"
    if stage == "final":
        return name
    return f"{name}-embed" if stage == "embeds" else f"{name}-l{stage.removeprefix('layer')}"


def _log_probabilities(logits: NDArray[np.float32], mask_code: int) -> NDArray[np.float32]:
    """Log softmax of logits [codebooks, frames, vocabulary], without the mask."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: NDArray[np.float32] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    result[..., mask_code] = -np.inf
    return result
