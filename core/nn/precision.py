"""Which precision the matrix products of a part of a model have."""

from __future__ import annotations

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


class ManyPositionsScope(Float32Scope):
    """The same for layers that see many positions at a time."""

    many = True
