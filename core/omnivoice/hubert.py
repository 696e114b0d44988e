"""HuBERT (Hsu et al., 2021), which hears what is said: 16 kHz samples to features at 50 per second.

HubertModel of transformers in its base form: group normalisation in the first convolution only, and normalisation
behind each half of a transformer layer (`do_stable_layer_norm` false). GELU is the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..engine import Engine, Graph, Program, State, Tensor, WeightScope
from ..formats.omnivoice import SemanticSizes
from ..nn.activations import Gelu, scaled_gelu
from ..nn.attention import attend_to_all, key_count_arrays, key_count_input
from ..nn.centred_conv import Conv1d
from ..nn.conv import PointwiseConv1d
from ..nn.norms import load_norm
from ..nn.stages import Stages, StagesOf
from ..nn.stretch import Span, Stretch, tiles

FloatArray = NDArray[np.float32]

_STATISTICS_ROWS = 1 << 16
"""Windows of samples whose statistics are taken at once."""


@dataclass(frozen=True)
class ChannelNorm:
    """What a normalisation over time does to each channel: x * scale + shift, both [channels]."""

    scale: FloatArray
    shift: FloatArray


class FeatureExtractor:
    """Samples to vectors: convolutions with GELU, then a norm and a projection.

    HubertFeatureEncoder and HubertFeatureProjection; weights `feature_extractor.conv_layers.{i}`,
    `feature_projection`.
    """

    def __init__(self, scope: WeightScope, sizes: SemanticSizes) -> None:
        self._first = scope.scope("feature_extractor.conv_layers.0.")
        self._first_stride = sizes.conv_strides[0]
        self._eps = sizes.norm_eps
        self._convs = [
            Conv1d(scope.scope(f"feature_extractor.conv_layers.{index}.conv."), stride=stride)
            for index, stride in enumerate(sizes.conv_strides)
        ]
        self._norm = load_norm(scope, "feature_projection.layer_norm", sizes.norm_eps)
        self._projection = PointwiseConv1d(scope.scope("feature_projection.projection."))
        self._gelu = Gelu()
        self.channels = sizes.conv_channels[0]

    def length(self, samples: int) -> int:
        """How many vectors there are for a number of samples."""
        for conv in self._convs:
            samples = conv.length(samples)
        return samples

    def needs(self, wanted: Span) -> Span:
        """Return the samples that a span of vectors depends on."""
        for conv in reversed(self._convs):
            wanted = conv.needs(wanted)
        return wanted

    def normalisation(self, samples: FloatArray) -> ChannelNorm:
        """Return the group normalisation behind the first convolution, for samples [n].

        It is over the whole recording, channel by channel (Wu and He, "Group Normalization", 2018, with as many groups
        as channels). The convolution reads one channel through short windows, so mean and variance of its outputs
        follow from those of the windows: mean w.m, variance w' C w. That takes no tensor of the recording's length.
        """
        weight = self._first.array("conv.weight").astype(np.float64)
        kernel = weight.shape[-1]
        mean, covariance = _window_statistics(samples, kernel, self._first_stride)
        weight = weight.reshape(-1, kernel)
        variance = np.einsum("ci,ij,cj->c", weight, covariance, weight)
        scale = self._first.array("layer_norm.weight") / np.sqrt(np.maximum(variance, 0.0) + self._eps)
        shift = self._first.array("layer_norm.bias") - weight @ mean * scale
        return ChannelNorm(scale.astype(np.float32), shift.astype(np.float32))

    def stages(self, x: Stretch, scale: Tensor, shift: Tensor) -> StagesOf[Stretch]:
        """x [1, samples], scale and shift [channels] of the first convolution -> [width, time]."""
        for index, conv in enumerate(self._convs):
            x = conv(x)
            x = x.each(self._gelu if index else lambda values: scaled_gelu(values, scale, shift))
            yield f"hubert_conv{index}", x
        x = x.each(lambda values: self._projection(self._norm(values)))
        yield "hubert_projection", x
        return x


def _window_statistics(
    samples: FloatArray, kernel: int, stride: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean [kernel] and covariance [kernel, kernel] of windows of samples [n]."""
    windows = sliding_window_view(samples, kernel)[::stride]

    def parts() -> Iterator[NDArray[np.float64]]:
        for begin in range(0, len(windows), _STATISTICS_ROWS):
            yield windows[begin : begin + _STATISTICS_ROWS].astype(np.float64)

    mean = np.sum([part.sum(0) for part in parts()], axis=0) / len(windows)
    squares = [(part - mean).T @ (part - mean) for part in parts()]
    return mean, np.sum(squares, axis=0) / len(windows)


class Positions:
    """What a position gets from the shape of the sequence around it: x + gelu(conv(x)), then a norm.

    HubertPositionalConvEmbedding and the norm of HubertEncoder; weights `pos_conv_embed.conv`, `layer_norm`.
    """

    def __init__(self, scope: WeightScope, sizes: SemanticSizes) -> None:
        kernel = sizes.position_kernel
        # Padded by kernel / 2 at both ends; of an even kernel, one output too many is dropped from the end.
        self._conv = Conv1d(
            scope.scope("pos_conv_embed.conv."),
            before=kernel // 2,
            after=(kernel - 1) // 2,
            groups=sizes.position_groups,
        )
        self._gelu = Gelu()
        self._norm = load_norm(scope, "layer_norm", sizes.norm_eps)

    def length(self, total: int) -> int:
        """How many outputs a sequence of `total` positions has: one for each."""
        return self._conv.length(total)

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""
        return self._conv.needs(wanted)

    def stages(self, x: Stretch) -> StagesOf[Stretch]:
        """x [width, time] -> [width, time]."""
        positions = self._conv(x).each(self._gelu)
        yield "hubert_pos_conv", positions
        x = x.plus(positions).each(self._norm)
        yield "hubert_hidden0", x
        return x


class HubertLayer:
    """norm(x + attention(x)), then norm(x + feed_forward(x)) (HubertEncoderLayer).

    Weights `attention.{q,k,v,out}_proj`, `layer_norm`, `feed_forward.{intermediate,output}_dense`, `final_layer_norm`.
    """

    def __init__(self, scope: WeightScope, sizes: SemanticSizes) -> None:
        self._heads, self._head_dim = sizes.heads, sizes.width // sizes.heads
        attention, feed_forward = scope.scope("attention."), scope.scope("feed_forward.")
        self._query, self._key, self._value, self._output = (
            PointwiseConv1d(attention.scope(f"{name}_proj.")) for name in ("q", "k", "v", "out")
        )
        self._norm = load_norm(scope, "layer_norm", sizes.norm_eps)
        self._up = PointwiseConv1d(feed_forward.scope("intermediate_dense."))
        self._down = PointwiseConv1d(feed_forward.scope("output_dense."))
        self._gelu = Gelu()
        self._final_norm = load_norm(scope, "final_layer_norm", sizes.norm_eps)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [width, time] -> keys and values [head_dim, time, heads]."""
        key, value = self._by_head(self._key(x)), self._by_head(self._value(x))
        return key.permute(0, 2, 1).contiguous(), value.permute(0, 2, 1).contiguous()

    def __call__(self, x: Tensor, keys: Tensor, values: Tensor, count: Tensor | None) -> Tensor:
        """x [width, time], keys and values [head_dim, count, heads] of all positions -> [width, time]."""
        query = self._by_head(self._query(x))
        attended = attend_to_all(query, keys, values, count, 1 / math.sqrt(self._head_dim))
        x = self._norm(self._output(attended, x))
        return self._final_norm(self._down(self._gelu(self._up(x)), x))

    def _by_head(self, x: Tensor) -> Tensor:
        return x.reshape(self._head_dim, self._heads, x.shape[1])


class HubertTransformer:
    """The encoder's layers, and the mean of what goes into the first and comes out of each; weights `layers.{i}`."""

    def __init__(self, scope: WeightScope, sizes: SemanticSizes) -> None:
        self._layers = [HubertLayer(scope.scope(f"layers.{index}."), sizes) for index in range(sizes.layers)]
        self._heads, self._head_dim = sizes.heads, sizes.width // sizes.heads

    def stages(self, x: Tensor, count: Tensor | None) -> Stages:
        """x [width, time] of all positions; count is their number, see `attend_to_all` -> the mean [width, time]."""
        total = x
        for index, layer in enumerate(self._layers):
            x = layer(x, *layer.keys_values(x), count)
            yield f"hubert_layer{index}", x
            total = total + x
        mean = total * self._share
        yield "hubert_mean", mean
        return mean

    def run(self, engine: Engine, x: FloatArray, piece: int) -> FloatArray:
        """x [time, width] -> the mean [time, width], as `stages` computes it, `piece` positions at once.

        Every position sees every other, so work grows with the square of the time. Memory need not: the recording goes
        through the first layer piece by piece, then through the second, and so on, and what is kept of it are the
        vectors themselves, and the keys and values of one layer.
        """
        shape = (self._head_dim, len(x), self._heads)
        state = engine.state({"keys": (shape, "f32"), "values": (shape, "f32")})
        total = x.copy()
        for layer in self._layers:
            x = _LayerRun(engine, layer, state)(x, piece)
            total += x
        mean: FloatArray = total * np.float32(self._share)
        return mean

    @property
    def _share(self) -> float:
        return 1.0 / (len(self._layers) + 1)


class _LayerRun:
    """One layer over a whole recording, piece by piece."""

    def __init__(self, engine: Engine, layer: HubertLayer, state: State) -> None:
        self._engine, self._layer, self._state = engine, layer, state

    def __call__(self, x: FloatArray, piece: int) -> FloatArray:
        """x [time, width] -> [time, width], `piece` positions at once."""
        storing, attending = _Programs(self._storing), _Programs(self._attending)
        for span in tiles(len(x), piece):
            rows = x[span.first : span.end]
            storing.of(rows.shape)(x=rows, places=np.arange(span.first, span.end))
        y = np.empty_like(x)
        count = key_count_arrays(self._engine, "count", len(x))
        for span in tiles(len(x), piece):
            rows = x[span.first : span.end]
            y[span.first : span.end] = attending.of(rows.shape)(x=rows, **count)["y"]
        return y

    def _storing(self, shape: tuple[int, ...]) -> Program:
        graph = self._engine.graph()
        keys, values = self._layer.keys_values(graph.input("x", shape[::-1]))
        places = graph.input("places", shape[:1], "i64")
        graph.effect(graph.use(self._state["keys"]).set_rows(keys, places))
        graph.effect(graph.use(self._state["values"]).set_rows(values, places))
        return graph.program({})

    def _attending(self, shape: tuple[int, ...]) -> Program:
        graph = self._engine.graph()
        keys, values = (graph.use(self._state[name]) for name in ("keys", "values"))
        count = key_count_input(graph, "count")
        return graph.program({"y": self._layer(graph.input("x", shape[::-1]), keys, values, count)})


class _Programs:
    """Programs for pieces of different lengths, built when they are first needed."""

    def __init__(self, build: Callable[[tuple[int, ...]], Program]) -> None:
        self._build = build
        self._built: dict[tuple[int, ...], Program] = {}

    def of(self, shape: tuple[int, ...]) -> Program:
        """Return the program for x of this array shape."""
        if shape not in self._built:
            self._built[shape] = self._build(shape)
        return self._built[shape]


def channel_inputs(graph: Graph, channels: int) -> tuple[Tensor, Tensor]:
    """Return the inputs "scale" and "shift" [channels] of a graph that runs a `FeatureExtractor`."""
    return graph.input("scale", (channels,)), graph.input("shift", (channels,))
