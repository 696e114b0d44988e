"""The codec encoder: 24 kHz samples to 16 codes per 80 ms (MimiModel.encode of transformers).

SEANet runs over pieces of the recording with the state of a stream, and the transformer takes what it leaves, 25
vectors per second, piece by piece too. What grows with the recording is those vectors, the keys and values of one
layer, and the samples themselves: 0.3 MB per second of audio with the published sizes. A last partial frame is kept:
every layer pads it on the right, as the official package does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ...engine import Engine, Program, Weights
from ...formats.layout import require_layout
from ...formats.qwen import CodecFile
from ...formats.qwen_layout import encoder_layout
from ...nn.conv import CausalConv1d
from ...nn.precision import ManyPositionsScope
from ...nn.stages import compute, named, result
from ...nn.streaming import StreamState
from .attention import exact_attention
from .encoder_transformer import EncoderTransformer
from .quantizer import SplitQuantizer
from .seanet import Seanet, SeanetMemory

_PIECE_FRAMES = 16
"""Frames of codes whose samples go through SEANet at once (1.3 s)."""
_SEANET_SHARE = 0.75
"""The part of the work that SEANet is, for reports of progress."""


class CodecEncoder:
    """Samples to codes; weights `tok_enc.*` of a codec file."""

    def __init__(self, weights: Weights, config: CodecFile, engine: Engine) -> None:
        """Raises ModelFileError when tensors are missing or of other shapes than the metadata says."""
        require_layout(weights, encoder_layout(config), weights.path, "a Qwen3-TTS codec's encoder")
        scope, sizes = ManyPositionsScope.of(weights.scope("tok_enc.")), config.encoder
        self._engine = engine
        self._seanet = Seanet(scope, sizes)
        self._transformer = EncoderTransformer(scope, exact_attention(sizes.transformer, engine), engine)
        stride = config.encoder_frame_samples // math.prod(sizes.strides)
        self._downsample = CausalConv1d(
            scope.scope("downsample."), stride=stride, padding="replicate", many=True
        )
        self._quantizer = SplitQuantizer(scope, sizes.semantic_quantizers, config.codebooks)
        self._width = sizes.transformer.width
        self._piece = _PIECE_FRAMES * config.encoder_frame_samples

    def encode(
        self, samples: NDArray[np.float32], on_progress: Callable[[float], None] = lambda part: None
    ) -> NDArray[np.int32]:
        """Codes int32 [ceil(n / 1920), 16] of mono samples [n] at the codec's rate.

        `on_progress` is told now and then which part of the work is done, up to 1.

        Raises:
            ValueError: there are no samples, or they are not one channel.
        """
        _require_mono(samples)
        pieces = []
        for piece in self.features(samples):
            pieces.append(piece)
            on_progress(min(1.0, len(pieces) * self._piece / len(samples)) * _SEANET_SHARE)
        latent = self._transformer.run(
            np.concatenate(pieces), lambda part: on_progress(_SEANET_SHARE + (1 - _SEANET_SHARE) * part)
        )
        graph = self._engine.graph()
        x = self._downsample(graph.input("latent", latent.shape[::-1]))
        semantic, acoustic = self._quantizer.project(x)
        vectors = compute(graph, {"semantic": semantic, "acoustic": acoustic}, latent=latent)
        return self._quantizer.search(vectors["semantic"], vectors["acoustic"])

    def stages(self, samples: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """Every stage of the undivided encoding by name, each [time, width], for dumps and comparisons."""
        _require_mono(samples)
        graph = self._engine.graph()
        found = named(self._seanet.stages(graph.input("samples", (1, len(samples)))))
        time = found["seanet"].shape[1]
        found |= named(self._transformer.stages(found["seanet"], graph.input("positions", (time,), "i32")))
        found["downsample"] = self._downsample(found["enc_tfm"])
        found["vq_semantic_in"], found["vq_acoustic_in"] = self._quantizer.project(found["downsample"])
        positions = np.arange(time, dtype=np.int32)
        return compute(graph, found, samples=samples[:, None], positions=positions)

    def features(self, samples: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
        """SEANet features [time, width] of one piece after the other."""
        state = StreamState(self._engine, self._seanet.memory)
        whole = len(samples) // self._piece * self._piece
        if whole:
            program = self._seanet_program(self._piece, state)
            for begin in range(0, whole, self._piece):
                yield self._run(program, samples[begin : begin + self._piece])
        if whole < len(samples):
            program = self._seanet_program(len(samples) - whole, state)
            yield self._run(program, samples[whole:])

    def _seanet_program(self, length: int, state: StreamState[SeanetMemory]) -> Program:
        graph = self._engine.graph()
        stages = self._seanet.stages(graph.input("samples", (1, length)), state.view(graph))
        return graph.program({"features": result(stages)})

    def _run(self, program: Program, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        features: NDArray[np.float32] = program(samples=samples[:, None])["features"]
        return features.reshape(-1, self._width)


def _require_mono(samples: NDArray[np.float32]) -> None:
    if samples.ndim != 1 or not len(samples):
        raise ValueError(f"the codec encodes mono samples [n], not an array of shape {samples.shape}")
