"""The semantic encoder: HuBERT's features to vectors of meaning (HiggsAudioV2TokenizerSemanticEncoder).

Its strides are 1 in the published model, and so they are here: no file carries them.
"""

from __future__ import annotations

from itertools import count, takewhile

from ..engine import WeightScope
from ..nn.activations import Elu
from ..nn.centred_conv import Conv1d
from ..nn.stages import StagesOf
from ..nn.stretch import Span, Stretch


def _same_conv(scope: WeightScope, *, active: bool = False) -> Conv1d:
    margin = (scope.shape("weight")[-1] - 1) // 2
    return Conv1d(scope, before=margin, after=margin, activation=Elu() if active else None)


def _parts(scope: WeightScope, name: str, weight: str) -> list[WeightScope]:
    """Return the scopes `name.0`, `name.1`, ... that the file has, known by one weight of each."""
    scopes = (scope.scope(f"{name}.{index}.") for index in count())
    return list(takewhile(lambda part: weight in part, scopes))


class ResidualUnit:
    """x + conv2(elu(conv1(elu(x)))), conv2 of kernel 1 (HiggsAudioV2TokenizerResidualUnit)."""

    def __init__(self, scope: WeightScope) -> None:
        self._first = _same_conv(scope.scope("conv1."), active=True)
        self._second = _same_conv(scope.scope("conv2."), active=True)

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""
        return self._first.needs(self._second.needs(wanted))

    def __call__(self, x: Stretch) -> Stretch:
        """x [width, time] -> [width, time]."""
        return self._second(self._first(x), x)


class SemanticEncoder:
    """A convolution, then blocks of residual units and a convolution; weights `conv`, `conv_blocks.{i}`."""

    def __init__(self, scope: WeightScope) -> None:
        self._layers: list[Conv1d | ResidualUnit] = [_same_conv(scope.scope("conv."))]
        for block in _parts(scope, "conv_blocks", "conv.weight"):
            units = _parts(block, "res_units", "conv1.weight")
            self._layers += [ResidualUnit(unit) for unit in units]
            self._layers.append(_same_conv(block.scope("conv.")))

    def needs(self, wanted: Span) -> Span:
        """Return the inputs that the outputs of a span depend on."""
        for layer in reversed(self._layers):
            wanted = layer.needs(wanted)
        return wanted

    def stages(self, x: Stretch) -> StagesOf[Stretch]:
        """x [width, frames] -> [width, frames]."""
        for layer in self._layers:
            x = layer(x)
        yield "semantic", x
        return x
