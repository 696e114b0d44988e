"""The Descript Audio Codec's networks (Kumar et al., "High-Fidelity Audio Compression with Improved RVQGAN", 2023).

Modules of transformers' `dac`, in the form of HiggsAudioV2TokenizerModel: no tanh at the end of the decoder, and
transposed convolutions whose output is exactly stride times as long as their input.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..engine import WeightScope
from ..nn.centred_conv import Conv1d, ConvTranspose1d
from ..nn.snake import Snake
from ..nn.stages import StagesOf
from ..nn.stretch import Span, Stretch

_DILATIONS = (1, 3, 9)
"""Of the three residual units in a block: constants of the architecture, which no file carries."""


def same_conv(scope: WeightScope, *, dilation: int = 1, activation: Snake | None = None) -> Conv1d:
    """Return a convolution with a kernel of odd length that keeps the length of its input."""
    margin = (scope.shape("weight")[-1] - 1) * dilation // 2
    return Conv1d(scope, dilation=dilation, before=margin, after=margin, activation=activation)


class ResidualUnit:
    """x + conv2(snake2(conv1(snake1(x)))), conv1 dilated and conv2 of kernel 1 (DacResidualUnit)."""

    def __init__(self, scope: WeightScope, dilation: int) -> None:
        first, second = Snake(scope.scope("snake1.")), Snake(scope.scope("snake2."))
        self._dilated = same_conv(scope.scope("conv1."), dilation=dilation, activation=first)
        self._pointwise = same_conv(scope.scope("conv2."), activation=second)

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""
        return self._dilated.needs(self._pointwise.needs(wanted))

    def __call__(self, x: Stretch) -> Stretch:
        """x [channels, time] -> [channels, time]."""
        return self._pointwise(self._dilated(x), x)


class ResidualUnits:
    """The residual units of a block, with growing dilation; weights `res_unit1`, `res_unit2`, ..."""

    def __init__(self, scope: WeightScope) -> None:
        self._units = [
            ResidualUnit(scope.scope(f"res_unit{number}."), dilation)
            for number, dilation in enumerate(_DILATIONS, start=1)
        ]

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""
        for unit in reversed(self._units):
            wanted = unit.needs(wanted)
        return wanted

    def __call__(self, x: Stretch) -> Stretch:
        """x [channels, time] -> [channels, time]."""
        for unit in self._units:
            x = unit(x)
        return x


class DecoderBlock:
    """Snake and transposed convolution by `stride`, then residual units (DacDecoderBlock)."""

    def __init__(self, scope: WeightScope, stride: int) -> None:
        self._transposed = ConvTranspose1d(
            scope.scope("conv_t1."),
            stride=stride,
            cut=-(-stride // 2),
            extra=stride % 2,
            activation=Snake(scope.scope("snake1.")),
        )
        self._units = ResidualUnits(scope)

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""
        return self._transposed.needs(self._units.needs(wanted))

    def stages(self, x: Stretch) -> StagesOf[Stretch]:
        """x [inputs, time] -> [outputs, time * stride]."""
        x = self._transposed(x)
        yield "_convt", x
        x = self._units(x)
        yield "", x
        return x


class DacDecoder:
    """Latent vectors to samples (DacDecoder): a convolution, a block per stride, snake, a convolution to one channel.

    Weights `conv1`, `block.{i}`, `snake1`, `conv2`.
    """

    def __init__(self, scope: WeightScope, strides: Sequence[int]) -> None:
        self._entry = same_conv(scope.scope("conv1."))
        self._blocks = [
            DecoderBlock(scope.scope(f"block.{index}."), stride) for index, stride in enumerate(strides)
        ]
        self._exit = same_conv(scope.scope("conv2."), activation=Snake(scope.scope("snake1.")))

    def needs(self, wanted: Span) -> Span:
        """Return the latent vectors that a span of samples depends on."""
        wanted = self._exit.needs(wanted)
        for block in reversed(self._blocks):
            wanted = block.needs(wanted)
        return self._entry.needs(wanted)

    def stages(self, x: Stretch) -> StagesOf[Stretch]:
        """x [width, time] -> samples [1, time * product of strides], not limited to full scale."""
        x = self._entry(x)
        yield "dac_conv1", x
        for index, block in enumerate(self._blocks):
            inner = block.stages(x)
            for name, x in inner:
                yield f"dac_block{index}{name}", x
        x = self._exit(x)
        yield "wav", x
        return x
