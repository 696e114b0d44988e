"""The codec's decoder: codes to 24 kHz samples (HiggsAudioV2TokenizerModel.decode of transformers).

A sample depends on a few frames before and after its own, so a recording is decoded tile by tile, each with as many
frames around it as its samples depend on. How many follows from the weights, and the result is that of the undivided
decode.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Graph, Tensor, Weights
from ..formats.layout import require_layout
from ..formats.omnivoice import OmniVoiceCodecFile
from ..formats.omnivoice_layout import decoder_layout
from ..nn.conv import PointwiseConv1d
from ..nn.precision import Float32Scope
from ..nn.stages import StagesOf, compute, named, result
from ..nn.stretch import Span, Stretch
from ..nn.tiling import Arrays, in_tiles
from .dac import DacDecoder
from .quantizer import Dequantizer

TILE_FRAMES = 64
"""Frames decoded at once (2.6 s): enough that reading the weights and decoding what surrounds them is no burden, few
enough that activations stay small."""

FloatArray = NDArray[np.float32]


class DecoderNetwork:
    """Quantiser, projection, waveform decoder; weights `quantizer.quantizers`, `fc2`, `acoustic_decoder`."""

    def __init__(self, weights: Weights, info: OmniVoiceCodecFile) -> None:
        """Raises ModelFileError when tensors are missing or of other shapes than the metadata says."""
        require_layout(weights, decoder_layout(info), weights.path, "an OmniVoice codec's decoder")
        scope = Float32Scope.of(weights.scope(""))
        self.frame_samples = math.prod(info.acoustic.upsample_strides)
        self.codebooks = info.codebooks
        self._dequantizer = Dequantizer(scope.scope("quantizer.quantizers."), info.codebooks)
        self._projection = PointwiseConv1d(scope.scope("fc2."))
        self._dac = DacDecoder(scope.scope("acoustic_decoder."), info.acoustic.upsample_strides)

    def needs(self, wanted: Span) -> Span:
        """Return the frames that a span of frames' samples depends on."""
        return self._dac.needs(wanted.scaled(self.frame_samples))

    def stages(self, codes: Tensor, first: int, total: int) -> StagesOf[Stretch]:
        """codes int32 [time, codebooks] of frames `first` and on of `total` -> their samples [1, ...]."""
        x = Stretch(self._dequantizer(codes), first, total)
        yield "quantized", x
        x = x.each(self._projection)
        yield "fc2", x
        return (yield from self._dac.stages(x))


@dataclass(frozen=True)
class _Decoding:
    """`TiledNetwork`: frames to the samples of a frame side by side."""

    network: DecoderNetwork
    codes: NDArray[np.int32]

    @property
    def inputs(self) -> int:
        return len(self.codes)

    @property
    def outputs(self) -> int:
        return len(self.codes) * self.network.frame_samples

    def needs(self, wanted: Span) -> Span:
        frames = self.network.frame_samples
        return self.network.needs(Span(wanted.first // frames, -(-wanted.end // frames)))

    def build(self, graph: Graph, given: Span) -> Stretch:
        codes = graph.input("codes", (given.length, self.network.codebooks), "i32")
        return result(self.network.stages(codes, given.first, self.inputs))

    def arrays(self, given: Span) -> Arrays:
        return {"codes": np.ascontiguousarray(self.codes[given.first : given.end].T)}


class OmniVoiceDecoder:
    """Codes to samples."""

    def __init__(
        self, weights: Weights, info: OmniVoiceCodecFile, engine: Engine, *, tile: int = TILE_FRAMES
    ) -> None:
        """`tile` is how many frames are decoded at once."""
        self.network = DecoderNetwork(weights, info)
        self._engine, self._info, self._tile = engine, info, tile

    def pieces(self, codes: NDArray[np.integer]) -> Iterator[FloatArray]:
        """Yield the samples [n] of codes [frames, codebooks] piece by piece; see `OmniVoiceCodec.decode`."""
        self.check(codes)
        decoding = _Decoding(self.network, codes.astype(np.int32))
        return self._run(decoding) if len(codes) else iter(())

    def _run(self, decoding: _Decoding) -> Iterator[FloatArray]:
        for tile in in_tiles(self._engine, decoding, self._tile * self.network.frame_samples):
            yield tile.reshape(-1)

    def stages(self, codes: NDArray[np.integer]) -> dict[str, FloatArray]:
        """Every stage of the undivided decode by name, each [time, width], for dumps and comparisons."""
        self.check(codes)
        graph = self._engine.graph()
        given = graph.input("codes", (len(codes), self.network.codebooks), "i32")
        found = named(self.network.stages(given, 0, len(codes)))
        tensors = {name: stretch.values for name, stretch in found.items()}
        return compute(graph, tensors, codes=np.ascontiguousarray(codes.T, np.int32))

    def check(self, codes: NDArray[np.integer]) -> None:
        """Raise ValueError unless codes are integers [frames, codebooks] that the codebooks have."""
        if codes.ndim != 2 or codes.shape[1] != self._info.codebooks or codes.dtype.kind not in "iu":
            raise ValueError(
                f"codes are {codes.dtype} of shape {codes.shape}, expected integers [frames, {self._info.codebooks}]"
            )
        highest = self._info.codebook_entries - 1
        if len(codes) and not 0 <= codes.min() <= codes.max() <= highest:
            raise ValueError(
                f"codes range from {codes.min()} to {codes.max()}, this codec has 0 to {highest}"
            )
