"""Convolutions that look both ways, over a `Stretch` of a sequence of channels-last activations.

At the ends of the sequence they see zeros (torch.nn.Conv1d and ConvTranspose1d with zero padding). Where only the tile
ends they compute what can be computed: `needs` tells how much of its surroundings a tile has to bring.
"""

from __future__ import annotations

from ..engine import Tensor, WeightScope
from .activations import Activation, Identity
from .stretch import Span, Stretch
from .taps import kernel_shape, kernel_taps, transposed_taps


class Conv1d:
    """Convolution with zero padding; weights `weight` (outputs, inputs / groups, kernel), `bias`.

    y[o, t] = bias[o] + sum over i, k of weight[o, i, k] x[i, t * stride + k * dilation - before]. `before` and `after`
    are how many zeros precede and follow the sequence; `activation` is applied to the input.
    """

    def __init__(
        self,
        scope: WeightScope,
        *,
        stride: int = 1,
        dilation: int = 1,
        before: int = 0,
        after: int = 0,
        groups: int = 1,
        activation: Activation | None = None,
    ) -> None:
        if stride > 1 and (dilation > 1 or groups > 1):
            raise ValueError("a convolution with a stride has neither dilation nor groups here")
        self._taps = kernel_taps(scope, stride=stride, dilation=dilation, groups=groups, many=True)
        self._reach = self._taps.reach
        self._stride, self._before, self._after = stride, before, after
        self._activation = activation or Identity()

    def length(self, total: int) -> int:
        """How many outputs a sequence of `total` positions has."""
        return (total + self._before + self._after - self._reach) // self._stride + 1

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""
        first = wanted.first * self._stride - self._before
        return Span(first, first + (wanted.length - 1) * self._stride + self._reach)

    def __call__(self, x: Stretch, residual: Stretch | None = None) -> Stretch:
        """x [inputs, time] -> all outputs [outputs, ...] that it determines, plus the residual, which has them too."""
        outputs = self._determined(x)
        read = self.needs(outputs)
        values = _fitted(x.values, x.first - read.first, read.length, self._activation)
        added = None if residual is None else residual.part(outputs).values
        return Stretch(self._taps(values, added), outputs.first, self.length(x.total))

    def _determined(self, x: Stretch) -> Span:
        seen_first = x.first - (self._before if x.begins else 0)
        seen_end = x.end + (self._after if x.ends else 0)
        return Span(
            -(-(seen_first + self._before) // self._stride),
            (seen_end + self._before - self._reach) // self._stride + 1,
        )


class ConvTranspose1d:
    """Transposed convolution whose stride divides the kernel; weights `weight` (inputs, outputs, kernel), `bias`.

    The sum over i, m of weight[i, o, m * stride + j] x[i, t - m] belongs at t * stride + j. The result begins `cut`
    positions in, and has (time - 1) * stride + kernel - 2 * cut + `extra` of them: padding and output_padding of
    torch.nn.ConvTranspose1d. The extra ones at the end are full sums like the others. `activation` is applied to the
    input.
    """

    def __init__(
        self,
        scope: WeightScope,
        *,
        stride: int,
        cut: int = 0,
        extra: int = 0,
        activation: Activation | None = None,
    ) -> None:
        _, outputs, kernel = kernel_shape(scope)
        if kernel % stride:
            raise ValueError(f"a kernel of length {kernel} is not a multiple of the stride {stride}")
        if extra > cut:
            raise ValueError(f"{extra} extra positions where {cut} are cut away")
        self._taps = transposed_taps(scope, stride)
        self._past = self._taps.reach - 1
        self._outputs, self._stride, self._activation = outputs, stride, activation or Identity()
        self._kernel: int = kernel
        self._cut, self._extra = cut, extra

    def length(self, total: int) -> int:
        """How many outputs a sequence of `total` positions has."""
        return (total - 1) * self._stride + self._kernel - 2 * self._cut + self._extra

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""
        first, last = (wanted.first + self._cut) // self._stride, (wanted.end - 1 + self._cut) // self._stride
        return Span(first - self._past, last + 1)

    def __call__(self, x: Stretch) -> Stretch:
        """x [inputs, time] -> all outputs [outputs, ...] that it determines."""
        past, total = self._past, self.length(x.total)
        ahead, behind = (past if x.begins else 0), (past if x.ends else 0)
        values = _fitted(x.values, ahead, ahead + x.values.shape[1] + behind, self._activation)
        blocks = self._taps(values)
        count = blocks.shape[1]
        # Outputs in blocks of one stride, of which the first that is complete belongs to input first + past.
        begin = (x.first - ahead + past) * self._stride - self._cut
        made = Stretch(blocks.reshape(self._outputs, count * self._stride), begin, total)
        return made.part(Span(begin, begin + count * self._stride).within(total))


def _fitted(x: Tensor, ahead: int, length: int, activation: Activation) -> Tensor:
    """x [channels, time], active, behind `ahead` zeros, and cut or extended by zeros to `length`.

    A negative `ahead` cuts away the beginning.
    """
    behind = length - ahead - x.shape[1]
    if ahead < 0 or behind < 0:
        dropped = max(0, -ahead)
        x = x.slice(1, dropped, x.shape[1] - dropped - max(0, -behind))
    if isinstance(activation, Identity) and ahead <= 0 and behind <= 0:
        return x
    return activation(x, before=max(0, ahead), after=max(0, behind))
