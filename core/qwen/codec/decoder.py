"""The codec decoder: 16 codes per 80 ms to 24 kHz samples (Qwen3TTSTokenizerV2Decoder of the official package).

Everything in it is causal, so a stream that is fed frame by frame computes what the undivided decode does. That is
also how long sequences are decoded: in pieces, with memory that does not grow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ...closing import Closing
from ...engine import Engine, Program, Tensor, Weights, WeightScope
from ...formats.layout import require_layout
from ...formats.qwen import CodecDecoderSizes, CodecFile
from ...formats.qwen_layout import decoder_layout
from ...nn.config import TransformerConfig
from ...nn.conv import CausalConv1d
from ...nn.kv_cache import CacheView, KVCache
from ...nn.precision import Float32Scope
from ...nn.stages import Stages, compute, named, prefixed, result
from ...nn.streaming import Allocate, Memory, StreamState
from .attention import exact_attention
from .dac import WaveformDecoder, WaveformMemory
from .decoder_transformer import DecoderTransformer
from .quantizer import SplitDequantizer
from .upsample import UpsampleMemory, UpsampleStage

WIDEST = 16
"""Frames that a stream decodes at once at most (1.3 s): wide enough that reading the weights is no burden, narrow
enough that activations stay in the caches."""


@dataclass(frozen=True)
class DecoderMemory:
    """What the convolutions of a stream remember."""

    entry: Memory | None
    upsample: tuple[UpsampleMemory, ...]
    waveform: WaveformMemory


class DecoderNetwork:
    """Quantiser, convolution, transformer, upsampling, waveform decoder; weights `tok_dec.*`."""

    def __init__(self, scope: WeightScope, sizes: CodecDecoderSizes, attention: TransformerConfig) -> None:
        self._quantizer = SplitDequantizer(scope, sizes.semantic_quantizers, sizes.quantizers)
        self._entry = CausalConv1d(scope.scope("pre_conv."))
        self._transformer = DecoderTransformer(scope.scope("pre_tfm."), attention)
        self._upsample = [
            UpsampleStage(scope.scope(f"upsample.{index}."), stride)
            for index, stride in enumerate(sizes.upsample_strides)
        ]
        self._waveform = WaveformDecoder(
            scope.scope("dec."), sizes.dac_strides, math.prod(sizes.upsample_strides)
        )

    def memory(self, allocate: Allocate) -> DecoderMemory:
        """Ask for what the convolutions of a stream keep."""
        return DecoderMemory(
            self._entry.memory(allocate),
            tuple(stage.memory(allocate) for stage in self._upsample),
            self._waveform.memory(allocate),
        )

    def stages(
        self,
        codes: Tensor,
        positions: Tensor,
        cache: CacheView | None = None,
        memory: DecoderMemory | None = None,
    ) -> Stages:
        """codes int32 [time, codebooks] at positions int32 [time] -> samples [1, time * samples per frame], -1 to 1.

        Without cache and memory, the codes are the whole sequence.
        """
        x = yield from self._quantizer.stages(codes)
        x = self._entry(x, memory.entry if memory else None)
        yield "pre_conv", x
        x = yield from self._transformer.stages(x, positions, cache)
        for index, stage in enumerate(self._upsample):
            x = yield from prefixed(
                f"up{index}_", stage.stages(x, memory.upsample[index] if memory else None)
            )
        x = yield from self._waveform.stages(x, memory.waveform if memory else None)
        x = x.clamp(-1.0, 1.0)
        yield "samples", x
        return x


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
        self.attention = exact_attention(sizes.transformer, engine)
        self.network = DecoderNetwork(Float32Scope.of(weights.scope("tok_dec.")), sizes, self.attention)
        self._idle: list[_Lane] = []
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
            lane = _Lane(self)
        lane.begin(snapshot)
        return DecoderStream(self, lane)

    def stages(self, codes: NDArray[np.integer]) -> dict[str, NDArray[np.float32]]:
        """Every stage of the undivided decode by name, each [time, width], for dumps and comparisons."""
        self.check(codes)
        frames = len(codes)
        graph = self.engine.graph()
        positions = graph.input("positions", (frames,), "i32")
        found = named(self.network.stages(graph.input("codes", (frames, self.codebooks), "i32"), positions))
        places = np.arange(frames, dtype=np.int32)
        return compute(graph, found, codes=_by_codebook(codes), positions=places)

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

    def take_back(self, lane: _Lane) -> None:
        """Keep what a finished stream leaves, so that the next one need not build its programs again."""
        with self._lock:
            self._idle.append(lane)

    def clear(self) -> None:
        """Let go of what finished streams have left."""
        with self._lock:
            self._idle.clear()


class DecoderStream(Closing):
    """One sequence of frames being decoded; a context manager that gives its memory back at the end."""

    def __init__(self, decoder: CodecDecoder, lane: _Lane) -> None:
        self._decoder = decoder
        self._lane: _Lane | None = lane

    def __call__(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """Samples float32 [m * 1920] of the next codes [m, 16].

        Raises:
            ValueError: the codes have another shape or lie outside the codebooks, or the stream is closed.
        """
        self._decoder.check(codes)
        samples = np.empty(len(codes) * self._decoder.frame_samples, np.float32)
        begin = 0
        for width in widths(len(codes), self._decoder.widest):
            piece = self._open_lane().run(codes[begin : begin + width])
            samples[begin * self._decoder.frame_samples :][: piece.size] = piece
            begin += width
        return samples

    def prime(self, codes: NDArray[np.integer]) -> None:
        """Let the stream go on behind a reference, codes [m, 16], whose own samples nobody wants."""
        self(codes)

    def snapshot(self, into: DecoderSnapshot | None = None) -> DecoderSnapshot:
        """Copy where the stream stands, so that other streams may go on from there; an older copy is written over."""
        return self._open_lane().snapshot(into)

    def close(self) -> None:
        """End the stream. Closing twice is harmless."""
        if self._lane is not None:
            self._decoder.take_back(self._lane)
            self._lane = None

    def _open_lane(self) -> _Lane:
        if self._lane is None:
            raise ValueError("the stream is closed")
        return self._lane


@dataclass(frozen=True)
class DecoderSnapshot:
    """Where a stream stands: its convolutions' memory, and the keys and values of its window."""

    memory: StreamState[DecoderMemory]
    cache: KVCache


class _Lane:
    """Device memory for one stream, and the programs that work on it.

    It knows the network and not the decoder, which keeps idle lanes: both would live until the garbage collector comes.
    """

    def __init__(self, decoder: CodecDecoder) -> None:
        self._engine, self._network, self._codebooks = decoder.engine, decoder.network, decoder.codebooks
        self._memory = StreamState(decoder.engine, decoder.network.memory)
        positions = 2 * decoder.attention.window + 8 * decoder.widest
        self._cache = KVCache(decoder.engine, decoder.attention, positions, "f32", sliding=True)
        self._programs: dict[tuple[int, ...], Program] = {}

    def begin(self, snapshot: DecoderSnapshot | None) -> None:
        if snapshot is None:
            self._memory.zero()
            self._cache.reset()
        else:
            self._memory.copy_from(snapshot.memory)
            self._cache.copy_from(snapshot.cache)

    def run(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """Samples [frames * samples per frame] of the next codes [frames, codebooks]."""
        frames = len(codes)
        self._cache.reserve(frames)
        key = (frames, *self._cache.signature(frames))
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._build(frames)
        arrays = program(codes=_by_codebook(codes), **self._cache.feed(frames))
        self._cache.advance(frames)
        samples: NDArray[np.float32] = arrays["samples"].reshape(-1)
        return samples

    def snapshot(self, into: DecoderSnapshot | None) -> DecoderSnapshot:
        if into is not None:
            into.memory.copy_from(self._memory)
            into.cache.copy_from(self._cache)
            return into
        memory = StreamState(self._engine, self._network.memory)
        memory.copy_from(self._memory)
        return DecoderSnapshot(memory, self._cache.clone())

    def _build(self, frames: int) -> Program:
        graph = self._engine.graph()
        codes = graph.input("codes", (frames, self._codebooks), "i32")
        view = self._cache.view(graph, frames)
        memory = self._memory.view(graph)
        samples = result(self._network.stages(codes, view.positions, view, memory))
        return graph.program({"samples": samples})


def widths(frames: int, widest: int) -> Iterator[int]:
    """Cut a number of frames into pieces of a power of two up to `widest`, the wide ones first."""
    while frames:
        width = min(widest, 1 << (frames.bit_length() - 1))
        yield width
        frames -= width


def _by_codebook(codes: NDArray[np.integer]) -> NDArray[np.int32]:
    return np.ascontiguousarray(codes.T, dtype=np.int32)
