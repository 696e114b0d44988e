"""Which draws come to the same code though logits are rounded in another way."""

from __future__ import annotations

import numpy as np

from ggtts.core.sampling import Draws, SamplingOptions

MARGIN = 1e-5
"""Of a probability, and of a logit."""


def is_steady(logits: np.ndarray, options: SamplingOptions, uniform: float) -> bool:
    """Whether no decision of the chain is closer than `MARGIN`: logits [entries] of one draw, `uniform` in 0..1."""
    ranked = np.sort(logits.astype(np.float64))[::-1]
    if not options.do_sample:
        return bool(ranked[0] - ranked[1] > MARGIN)
    count = options.top_k if 0 < options.top_k < len(ranked) else len(ranked)
    if count < len(ranked) and ranked[count - 1] - ranked[count] < MARGIN:
        return False
    weights = np.exp((logits.astype(np.float64) - ranked[0]) / options.temperature)
    weights[logits < ranked[count - 1]] = 0
    ascending = np.argsort(weights, kind="stable")
    shares = np.cumsum(weights[ascending]) / weights.sum()
    if options.top_p < 1:
        if np.abs(shares - (1 - options.top_p)).min() < MARGIN:
            return False
        dropped = int((shares[:-1] <= 1 - options.top_p).sum())
        last, first = logits[ascending[max(dropped - 1, 0)]], logits[ascending[dropped]]
        if dropped > 0 and first - last < MARGIN:
            return False
        weights[ascending[:dropped]] = 0
    return bool(np.abs(np.cumsum(weights) / weights.sum() - uniform).min() > MARGIN)


def steady_codes(logits: np.ndarray, options: SamplingOptions, draws: Draws, frame: int) -> int:
    """Return how many codes of a frame follow from its logits [codes, entries] before the first that may not."""
    for index, found in enumerate(logits):
        if not is_steady(found, options, draws.uniform(frame, index + 1)):
            return index
    return len(logits)
