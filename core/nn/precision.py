"""Which precision the matrix products of a part of a model have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..engine import Tensor, WeightScope

_HALF = frozenset({"f16", "bf16"})


class Float32Scope(WeightScope):
    """Weights whose half precision matrices become float32.

    A product with a half precision matrix rounds the activations as well, which the official float32 codec does not.
    Quantised matrices stay as they are. The CPU multiplies with float matrices by its kernels of convolutions,
    which are faster than GGML's products, and whose results do not depend on how many positions there are.

    Attributes:
        many: layers see many positions at a time. Then matrices are used where they lie in the file, and nothing is
            loaded; else they are packed.
    """

    many = False

    @classmethod
    def of(cls, scope: WeightScope) -> Float32Scope:
        """The same weights as `scope`, in this precision."""
        return cls(scope.weights, scope.prefix)

    def scope(self, prefix: str) -> Float32Scope:
        """The weights whose names go on with `prefix`, in the same precision and for the same use."""
        return type(self)(self.weights, self.prefix + prefix)

    def matrix(self, *names: str) -> Tensor:
        """A weight that is only used as the left operand of `matmul`."""
        if len(names) == 1 and self.dtype(names[0]) in _HALF:
            return self.tensor(names[0], "f32")
        return super().matrix(*names)

    def is_convolved(self, name: str) -> bool:
        """Tell whether a matrix is left to the kernels of convolutions."""
        return self.weights.on_cpu and self.weights.has_floats(self.full_name(name))

    def can_join(self, *names: str) -> bool:
        """Tell whether `matrix` takes these names together."""
        apart = any(self.is_convolved(name) or self.dtype(name) in _HALF for name in names)
        return not apart and super().can_join(*names)


class FoldedScope(Float32Scope):
    """Weights whose matrices all become float32, multiplied by the layer scale behind them.

    For small products on a GPU: their time goes into launching operations, and a quantised matrix has its inputs
    quantised by one, and its layer scale is another one.
    """

    _scales: Mapping[str, str] = {"attn_output.weight": "attn_scale", "ffn_down.weight": "ffn_scale"}

    def matrix(self, *names: str) -> Tensor:
        """A weight that is only used as the left operand of `matmul`."""
        folded = np.concatenate([self._folded(name) for name in names])
        return self.constant("+".join(names) + " folded", folded, matrix=True)

    def can_join(self, *names: str) -> bool:
        """Tell whether `matrix` takes these names together: always, where they have the same width."""
        return len({self.shape(name)[-1] for name in names}) == 1

    def __contains__(self, name: str) -> bool:
        """Tell whether a weight is there and not folded into another one."""
        return name not in self._scales.values() and super().__contains__(name)

    def _folded(self, name: str) -> NDArray[np.float32]:
        matrix, scale = self.array(name), self._scales.get(name)
        if scale is None or self.full_name(scale) not in self.weights:
            return matrix
        if name.replace(".weight", ".bias") in self:
            raise ValueError(
                f"{self.full_name(name)} has a bias, which a layer scale would have to scale too"
            )
        return matrix * self.array(scale)[:, None]


class ManyPositionsScope(Float32Scope):
    """The same for layers that see many positions at a time."""

    many = True
