"""Matrix products with the weights of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..engine import Tensor, WeightScope
from .precision import Float32Scope
from .taps import pointwise_taps

Stacked = tuple[str, ...]
"""Names of weights, the rows of which lie one below the other."""


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

    def __init__(self, scope: WeightScope, names: Sequence[str | Stacked], *, join: bool = True) -> None:
        """Load the weights of `names`; without `join`, each stays a product of its own.

        Several names in place of one are one `Linear` with the outputs of all of them. They have to fit together as
        `WeightScope.can_join` says, and to be without bias.
        """
        entries = [(name,) if isinstance(name, str) else name for name in names]
        self._products = [
            Linear(scope, *joined[0]) if len(joined) == len(joined[0]) == 1 else _JoinedProduct(scope, joined)
            for joined in (_joinable(scope, entries) if join else [[entry] for entry in entries])
        ]

    def __call__(self, x: Tensor) -> list[Tensor]:
        """x [inputs, tokens] -> [outputs, tokens] of each, in the order of the names; rows of them may lie apart."""
        results: list[Tensor] = []
        for product in self._products:
            results += product.parts(x) if isinstance(product, _JoinedProduct) else [product(x)]
        return results


class _JoinedProduct:
    """Some of the `Linear` of a group as one product."""

    def __init__(self, scope: WeightScope, entries: Sequence[Stacked]) -> None:
        self._weight = scope.matrix(*(f"{name}.weight" for entry in entries for name in entry))
        self._shares = [_Share(scope, entry) for entry in entries]

    def parts(self, x: Tensor) -> Iterator[Tensor]:
        """x [inputs, tokens] -> [outputs, tokens] of each."""
        product, start = self._weight @ x, 0
        for share in self._shares:
            part = product.slice(0, start, share.outputs)
            yield part if share.bias is None else part + share.bias
            start += share.outputs


class _Share:
    """The part of a joined product that belongs to one entry."""

    def __init__(self, scope: WeightScope, entry: Stacked) -> None:
        self.outputs = sum((1, *scope.shape(f"{name}.weight"))[-2] for name in entry)
        bias = f"{entry[0]}.bias"
        self.bias = scope.tensor(bias, "f32") if len(entry) == 1 and bias in scope else None


def _joinable(scope: WeightScope, entries: Sequence[Stacked]) -> list[list[Stacked]]:
    """Return the entries in groups of neighbours that can be one matrix."""
    groups: list[list[Stacked]] = []
    for entry in entries:
        together = [name for other in (*groups[-1], entry) for name in other] if groups else []
        if together and scope.can_join(*(f"{name}.weight" for name in together)):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups
