"""Choosing tokens: the sampling chain and the random numbers it draws, in native code."""

from .chain import Draws, SamplingOptions, TokenRules, TokenSampler, sample_together
from .philox import resolve_seed

__all__ = ["Draws", "SamplingOptions", "TokenRules", "TokenSampler", "resolve_seed", "sample_together"]
