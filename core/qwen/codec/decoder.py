"""The codec decoder: 16 codes per 80 ms to 24 kHz samples (Qwen3TTSTokenizerV2Decoder of the official package).

Everything in it is causal, so a stream that is fed frame by frame computes what the undivided decode does. That is
also how long sequences are decoded: in pieces, with memory that does not grow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ...closing import Closing
from ...engine import Engine, Weights
from ...formats.layout import require_layout
from ...formats.qwen import CodecFile
from ...formats.qwen_layout import decoder_layout
from ...nn.conv_chain import open_chain
from ...nn.precision import Float32Scope, FoldedScope
from ...nn.stages import compute, named
from .attention import exact_attention, rounded_attention
from .dac import waveform_layers
from .lanes import DecoderLanes, DecoderSnapshot, LaneSizes
from .network import DecoderNetwork, waveform_scope

WIDEST = 16
"""Frames that a stream decodes at once at most (1.3 s): wide enough that reading the weights is no burden, narrow
enough that activations stay in the caches."""


class CodecDecoder:
    """Codes to samples; weights `tok_dec.*` of a codec file. Any number of streams may run at once."""

    def __init__(self, weights: Weights, config: CodecFile, engine: Engine, *, widest: int = WIDEST) -> None:
        """`widest` is how many frames are decoded at once at most, a power of two.

        Raises ModelFileError when tensors are missing or of other shapes than the metadata says.
        """
        if widest < 1 or widest & (widest - 1):
            raise ValueError(f"{widest} is not a power of two")
        require_layout(weights, decoder_layout(config), weights.path, "a Qwen3-TTS codec's decoder")
        sizes = config.decoder
        self.engine = engine
        self.widest = widest
        self.codebooks = sizes.quantizers
        self.entries = sizes.codebook_entries
        self.frame_samples = math.prod(sizes.upsample_strides) * math.prod(sizes.dac_strides)
        scope = (Float32Scope if engine.is_cpu else FoldedScope)(weights, "tok_dec.")
        layers = partial(waveform_layers, waveform_scope(scope), sizes.dac_strides)
        chain = open_chain(engine, layers)
        rounded = chain is not None and chain.dtype == "f16"
        attention = (
            rounded_attention(sizes.transformer) if rounded else exact_attention(sizes.transformer, engine)
        )
        self._network = DecoderNetwork(scope, sizes, attention, chain)
        self._lane_sizes = LaneSizes(widest, attention)
        self._idle: list[DecoderLanes] = []
        self._lock = Lock()

    def decode(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """Samples float32 [n * 1920] of codes [n, 16].

        Raises:
            ValueError: the codes have another shape, or lie outside the codebooks.
        """
        with self.stream() as stream:
            return stream(codes)

    def decode_with_left_context(
        self, codes: NDArray[np.integer], chunk: int = 300, context: int = 25
    ) -> NDArray[np.float32]:
        """Samples float32 [n * 1920] as the official package computes them for codes [n, 16] of a long recording.

        It decodes chunks by themselves, each behind `context` frames of the one before whose samples are dropped
        (`chunked_decode`). That is an approximation, for comparisons: `decode` is exact at any length.
        """
        begins = range(0, len(codes), chunk)
        pieces = []
        for begin in begins:
            before = min(begin, context)
            samples = self.decode(codes[begin - before : begin + chunk])
            pieces.append(samples[before * self.frame_samples :])
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    def stream(self, snapshot: DecoderSnapshot | None = None) -> DecoderStream:
        """Begin a stream, at silence or where the snapshot of another stream was taken."""
        with self._lock:
            lane = self._idle.pop() if self._idle else None
        if lane is None:
            lane = self.lanes(1)
        lane.begin(0, snapshot)
        return DecoderStream(self, lane)

    def stages(self, codes: NDArray[np.integer]) -> dict[str, NDArray[np.float32]]:
        """Every stage of the undivided decode by name, each [time, width], for dumps and comparisons."""
        self.check(codes)
        frames = len(codes)
        graph = self.engine.graph()
        positions = graph.input("positions", (frames,), "i32")
        quantizer = self._network.quantizer
        found = named(self._network.stages(quantizer.input(graph, frames), positions))
        places = np.arange(frames, dtype=np.int32)
        return compute(graph, found, codes=quantizer.feed(codes), positions=places)

    def check(self, codes: NDArray[np.integer]) -> None:
        """Raise ValueError unless codes are integers [frames, codebooks] that the codebooks have."""
        if codes.dtype.kind not in "iu":
            raise ValueError(f"codes are {codes.dtype}, expected integers")
        if codes.ndim != 2 or codes.shape[1] != self.codebooks:
            raise ValueError(f"codes have shape {codes.shape}, expected [frames, {self.codebooks}]")
        if len(codes) and not 0 <= codes.min() <= codes.max() < self.entries:
            raise ValueError(
                f"codes range from {codes.min()} to {codes.max()}, this codec has 0 to {self.entries - 1}"
            )

    def knows(self, pieces: Sequence[NDArray[np.integer]]) -> bool:
        """Tell whether `check` finds nothing wrong with any of some pieces, at one look."""
        alike = all(codes.dtype == np.int32 and codes.shape[1:] == (self.codebooks,) for codes in pieces)
        if not pieces or not alike:
            return False
        together = np.concatenate(pieces)
        return not len(together) or bool(together.min() >= 0 and together.max() < self.entries)

    def lanes(self, count: int) -> DecoderLanes:
        """Return memory for that many streams, with programs of its own.

        Raises:
            EngineError: the device has not enough memory.
        """
        return DecoderLanes(self.engine, self._network, self._lane_sizes, count)

    def take_back(self, lane: DecoderLanes) -> None:
        """Keep what a finished stream leaves, so that the next one need not build its programs again."""
        with self._lock:
            self._idle.append(lane)

    def clear(self) -> None:
        """Let go of what finished streams have left."""
        with self._lock:
            self._idle.clear()


class DecoderStream(Closing):
    """One sequence of frames being decoded; a context manager that gives its memory back at the end."""

    def __init__(self, decoder: CodecDecoder, lane: DecoderLanes) -> None:
        self._decoder = decoder
        self._lane: DecoderLanes | None = lane

    def __call__(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """Samples float32 [m * 1920] of the next codes [m, 16].

        Raises:
            ValueError: the codes have another shape or lie outside the codebooks, or the stream is closed.
        """
        self._decoder.check(codes)
        samples = np.empty(len(codes) * self._decoder.frame_samples, np.float32)
        begin = 0
        for width in widths(len(codes), self._decoder.widest):
            piece = self._open_lane().run([0], codes[None, begin : begin + width])
            samples[begin * self._decoder.frame_samples :][: piece.size] = piece[0]
            begin += width
        return samples

    def prime(self, codes: NDArray[np.integer]) -> None:
        """Let the stream go on behind a reference, codes [m, 16], whose own samples nobody wants."""
        self(codes)

    def snapshot(self, into: DecoderSnapshot | None = None) -> DecoderSnapshot:
        """Copy where the stream stands, so that other streams may go on from there; an older copy is written over."""
        return self._open_lane().snapshot(0, into)

    def close(self) -> None:
        """End the stream. Closing twice is harmless."""
        if self._lane is not None:
            self._decoder.take_back(self._lane)
            self._lane = None

    def _open_lane(self) -> DecoderLanes:
        if self._lane is None:
            raise ValueError("the stream is closed")
        return self._lane


def widths(frames: int, widest: int) -> Iterator[int]:
    """Cut a number of frames into pieces of a power of two up to `widest`, the wide ones first."""
    while frames:
        width = min(widest, 1 << (frames.bit_length() - 1))
        yield width
        frames -= width
