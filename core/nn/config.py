"""Sizes of a transformer, and how exactly it computes."""

from __future__ import annotations

from dataclasses import dataclass

FLOAT16_MAX = 65504.0


@dataclass(frozen=True)
class Arithmetic:
    """Departures from the usual way of computing.

    Attributes:
        plain_attention: matrix products and a softmax instead of a fused attention operation.
        clamp_float16: keep values and the residual stream within the range of float16, for devices that would
            overflow there.
    """

    plain_attention: bool = False
    clamp_float16: bool = False


USUAL = Arithmetic()


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a pre-norm transformer with grouped-query attention and rotary positions.

    Attributes:
        layers: number of blocks.
        width: channels of the residual stream.
        ffn_width: hidden channels of the feed-forward part.
        heads: query heads.
        kv_heads: key and value heads; divides `heads`.
        head_dim: channels of one head.
        rope_theta: base of the rotary frequencies.
        norm_eps: added to the variance in every norm.
        window: how many positions a query sees, its own included; 0 is all before it.
        arithmetic: how it computes.
        many_positions: whether it sees a hundred positions and more at a time, and no cache: a GPU then takes fewer
            and larger operations.
    """

    layers: int
    width: int
    ffn_width: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    norm_eps: float
    window: int = 0
    arithmetic: Arithmetic = USUAL
    many_positions: bool = False
