"""Matrix products with the weights of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..engine import Tensor, WeightScope
from .precision import Float32Scope
from .taps import pointwise_taps


class Linear:
    """y = weight x + bias, with `name.weight` (outputs, inputs) and, if the file has it, `name.bias` (outputs)."""

    def __init__(self, scope: WeightScope, name: str) -> None:
        self._product: Callable[[Tensor], Tensor]
        if isinstance(scope, Float32Scope) and scope.is_convolved(f"{name}.weight"):
            self._product = pointwise_taps(scope.scope(f"{name}."), many=scope.many)
        else:
            self._product = _MatrixProduct(scope, name)

    def __call__(self, x: Tensor) -> Tensor:
        """x [inputs, ...] -> [outputs, ...]."""
        return self._product(x)


class _MatrixProduct:
    """`Linear` as operations of the engine's products."""

    def __init__(self, scope: WeightScope, name: str) -> None:
        self._weight = scope.matrix(f"{name}.weight")
        self._bias = scope.tensor(f"{name}.bias", "f32") if f"{name}.bias" in scope else None

    def __call__(self, x: Tensor) -> Tensor:
        y = self._weight @ x
        return y if self._bias is None else y + self._bias


class LinearGroup:
    """Several `Linear` of one input, computed as one product where the file keeps them in one type.

    Fewer, larger products read the input once and leave less to coordinate between threads, or to launch on a GPU.
    """

    def __init__(self, scope: WeightScope, names: Sequence[str], *, join: bool = True) -> None:
        """Load the weights of `names`; without `join`, each stays a product of its own."""
        self._products = [
            Linear(scope, *joined) if len(joined) == 1 else _JoinedProduct(scope, joined)
            for joined in (_joinable(scope, names) if join else [[name] for name in names])
        ]

    def __call__(self, x: Tensor) -> list[Tensor]:
        """x [inputs, tokens] -> [outputs, tokens] of each, in the order of the names; rows of them may lie apart."""
        results: list[Tensor] = []
        for product in self._products:
            results += product.parts(x) if isinstance(product, _JoinedProduct) else [product(x)]
        return results


class _JoinedProduct:
    """Some of the `Linear` of a group as one product."""

    def __init__(self, scope: WeightScope, names: Sequence[str]) -> None:
        self._weight = scope.matrix(*(f"{name}.weight" for name in names))
        self._shares = [_Share(scope, name) for name in names]

    def parts(self, x: Tensor) -> Iterator[Tensor]:
        """x [inputs, tokens] -> [outputs, tokens] of each."""
        product, start = self._weight @ x, 0
        for share in self._shares:
            part = product.slice(0, start, share.outputs)
            yield part if share.bias is None else part + share.bias
            start += share.outputs


class _Share:
    """The part of a joined product that belongs to one weight."""

    def __init__(self, scope: WeightScope, name: str) -> None:
        self.outputs = (1, *scope.shape(f"{name}.weight"))[-2]
        self.bias = scope.tensor(f"{name}.bias", "f32") if f"{name}.bias" in scope else None


def _joinable(scope: WeightScope, names: Sequence[str]) -> list[list[str]]:
    """Return the names in groups of neighbours that can be one matrix."""
    groups: list[list[str]] = []
    for name in names:
        if groups and scope.can_join(*(f"{other}.weight" for other in (*groups[-1], name))):
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups
