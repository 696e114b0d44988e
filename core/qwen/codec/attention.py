"""How the transformers of the codec attend."""

from __future__ import annotations

from dataclasses import asdict

from ...engine import Engine
from ...formats.qwen import TransformerSizes
from ...nn.config import Arithmetic, TransformerConfig


def exact_attention(sizes: TransformerSizes, engine: Engine) -> TransformerConfig:
    """Return the transformer of these sizes, in float32 on every device.

    The fused attention of the CPU is exact; flash attention elsewhere rounds keys and values to float16, so there
    plain matrix products take its place. They cost nothing next to the convolutions.
    """
    return TransformerConfig(**asdict(sizes), arithmetic=Arithmetic(plain_attention=not engine.is_cpu))


def rounded_attention(sizes: TransformerSizes) -> TransformerConfig:
    """Return the same with the attention that a device has at its best, beside convolutions of float16 factors."""
    return TransformerConfig(**asdict(sizes))
