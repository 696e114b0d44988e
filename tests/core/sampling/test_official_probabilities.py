"""The probabilities that reached torch.multinomial in the official package, for its own logits."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ggtts.core.sampling import Draws, SamplingOptions, TokenRules, TokenSampler
from support.data import Golden

CASES = ["sampling_default", "sampling_topp", "sampling_notopk"]
OFFICIAL_DEFAULTS = {"temperature": 0.9, "top_k": 50, "top_p": 1.0}
# The stored logits have 16 significant bits; against unrounded ones the probabilities agree to 1e-5.
PROBABILITY_TOLERANCE = 2e-4
SUPPRESSED_TAIL = 1024


def options(meta: Mapping[str, Any], prefix: str, penalty: float) -> SamplingOptions:
    given = {name: meta["sampling"].get(prefix + name, value) for name, value in OFFICIAL_DEFAULTS.items()}
    return SamplingOptions(do_sample=True, repetition_penalty=penalty, **given)


@pytest.mark.parametrize("case", CASES)
def test_talker_chain(golden: Callable[[str], Golden], case: str) -> None:
    """Each step with the official history: a sampler fed one-hot logits of the official draws follows it."""
    stored = golden(case)
    meta = stored.meta
    vocabulary = stored["talker_logits"].shape[1]
    rules = TokenRules(
        end_token=meta["eos"],
        suppress=(vocabulary - SUPPRESSED_TAIL, vocabulary),
        minimum_tokens=meta["min_new_tokens"],
    )
    sampler = TokenSampler(options(meta, "", meta["repetition_penalty"]), Draws(seed=0, codebooks=16), rules)
    for frame, (logits, expected) in enumerate(
        zip(stored["talker_logits"], stored["talker_probs"], strict=True)
    ):
        np.testing.assert_allclose(sampler.probabilities(logits), expected, atol=PROBABILITY_TOLERANCE)
        official = int(stored["talker_draws"][frame])
        forced = np.full(vocabulary, -np.inf, np.float32)
        forced[official] = 0
        assert sampler.sample(forced, frame) == official


@pytest.mark.parametrize("case", CASES)
def test_code_predictor_chain(golden: Callable[[str], Golden], case: str) -> None:
    stored = golden(case)
    meta = stored.meta
    sampler = TokenSampler(options(meta, "subtalker_", 1.0), Draws(seed=0, codebooks=16))
    rows = stored["cp_logits"].reshape(-1, stored["cp_logits"].shape[-1])
    for logits, expected in zip(rows, stored["cp_probs"], strict=True):
        np.testing.assert_allclose(sampler.probabilities(logits), expected, atol=PROBABILITY_TOLERANCE)
