"""Which precision the matrix products of a part of a model have."""

from __future__ import annotations

from ..engine import Tensor, WeightScope

_HALF = frozenset({"f16", "bf16"})


class Float32Scope(WeightScope):
    """Weights whose half precision matrices become float32.

    A product with a half precision matrix rounds the activations as well, which the official float32 codec does not.
    Quantised matrices stay as they are.
    """

    @classmethod
    def of(cls, scope: WeightScope) -> Float32Scope:
        """The same weights as `scope`, in this precision."""
        return cls(scope.weights, scope.prefix)

    def scope(self, prefix: str) -> Float32Scope:
        """The weights whose names go on with `prefix`, in the same precision."""
        return Float32Scope(self.weights, self.prefix + prefix)

    def matrix(self, *names: str) -> Tensor:
        """A weight that is only used as the left operand of `matmul`."""
        if len(names) == 1 and self.dtype(names[0]) in _HALF:
            return self.tensor(names[0], "f32")
        return super().matrix(*names)

    def can_join(self, *names: str) -> bool:
        """Tell whether `matrix` takes these names together."""
        return not any(self.dtype(name) in _HALF for name in names) and super().can_join(*names)


class ManyPositionsScope(Float32Scope):
    """The same for layers that see many positions at a time: the CPU multiplies with float matrices where they lie in
    the file, faster than GGML does, and nothing is loaded."""

    def scope(self, prefix: str) -> ManyPositionsScope:
        """The weights whose names go on with `prefix`, for the same use."""
        return ManyPositionsScope(self.weights, self.prefix + prefix)

    def stays_in_file(self, name: str) -> bool:
        """Tell whether a matrix is used where it lies."""
        return self.weights.on_cpu and self.weights.has_floats(self.full_name(name))

    def can_join(self, *names: str) -> bool:
        """Tell whether `matrix` takes these names together."""
        return not any(self.stays_in_file(name) for name in names) and super().can_join(*names)
