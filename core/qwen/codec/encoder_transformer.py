"""The transformer of the codec encoder: causal over the whole recording (MimiTransformerModel of transformers).

The configuration of Mimi names a window, but the attention that transformers 4.57 runs on float32 does not apply it.
So the last position sees the first, and what can be bounded is all but the keys and values of one layer: a recording
goes through the first layer piece by piece, then through the second, and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...engine import Engine, Program, Tensor, WeightScope
from ...nn.attention import WholeSequence
from ...nn.feed_forward import GeluMlp
from ...nn.kv_cache import KVCache
from ...nn.stages import Stages
from ...nn.transformer import TransformerBlock, TransformerConfig

_PIECE = 256
"""Positions that go through a layer at once (10 s)."""

FloatArray = NDArray[np.float32]


class EncoderTransformer:
    """Blocks with LayerNorm, GELU and layer scale, and no norm behind the last; weights `blk.{i}`."""

    def __init__(self, scope: WeightScope, config: TransformerConfig, engine: Engine) -> None:
        self._config = config
        self._engine = engine
        self._blocks = [
            TransformerBlock(scope.scope(f"blk.{index}."), config, GeluMlp) for index in range(config.layers)
        ]

    def stages(self, x: Tensor, positions: Tensor) -> Stages:
        """x [width, time] at positions int32 [time] (0, 1, 2, ...) -> [width, time]."""
        memory = WholeSequence(positions, self._config)
        for index, block in enumerate(self._blocks):
            x = block(x, positions, memory)
            yield f"enc_tfm_layer{index}", x
        yield "enc_tfm", x
        return x

    def run(self, x: FloatArray, on_piece: Callable[[float], None]) -> FloatArray:
        """x [time, width] -> [time, width], as `stages` computes it.

        `on_piece` is told after each piece which part of the work is done, up to 1.
        """
        cache = KVCache(self._engine, replace(self._config, layers=1), len(x), "f32")
        for index, block in enumerate(self._blocks):
            layer = _Layer(block, cache, self._engine)
            pieces = np.split(x, range(_PIECE, len(x), _PIECE))
            for number, piece in enumerate(pieces):
                pieces[number] = layer(piece)
                on_piece((index + (number + 1) / len(pieces)) / len(self._blocks))
            x = np.concatenate(pieces)
        return x


class _Layer:
    """One block that takes a sequence piece by piece."""

    def __init__(self, block: TransformerBlock, cache: KVCache, engine: Engine) -> None:
        """Begin a sequence; `cache` is for one layer, and forgets what it held."""
        cache.reset()
        self._block, self._cache, self._engine = block, cache, engine
        self._program: Program | None = None
        self._signature: tuple[int, ...] = ()

    def __call__(self, x: FloatArray) -> FloatArray:
        """The next piece x [time, width] -> [time, width]."""
        time, width = x.shape
        self._cache.reserve(time)
        signature = (time, *self._cache.signature(time))
        if self._program is None or signature != self._signature:
            self._program, self._signature = self._build(time, width), signature
        y: FloatArray = self._program(x=x, **self._cache.feed(time))["y"]
        self._cache.advance(time)
        return y.reshape(time, width)

    def _build(self, time: int, width: int) -> Program:
        graph = self._engine.graph()
        view = self._cache.view(graph, time)
        return graph.program(
            {"y": self._block(graph.input("x", (width, time)), view.positions, view.layer(0))}
        )
