"""Which precision the matrix products of a part of a model have."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence

from ..engine import Engine, Tensor, Weights, WeightScope
from ..errors import UsageError

MATRICES_VARIABLE = "GGTTS_MATRICES"
"""Environment variable: how a GPU holds matrices that see many positions at a time; "file", "bf16" or "f32"."""

WIDE_TYPE = "bf16"
"""What such matrices become where nothing else is said."""

_BYTES = {"bf16": 2, "f32": 4}

_logger = logging.getLogger("ggtts.nn")

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


def many_positions_type(engine: Engine, weights: Weights, names: Sequence[str]) -> str | None:
    """Return the type in which a GPU holds matrices of a file that see a hundred positions and more at a time.

    GGML multiplies quantised matrices with activations rounded to 8 bits, and expands those in float16 for every
    product. A GPU with tensor cores for floats does better with floats: on an H200 twice as fast, and with less
    rounding. They take more memory, so they have to fit into half of what is free.

    Returns:
        None for matrices as the file has them: on the CPU, on a GPU that is not NVIDIA's (which was not measured) or
        has not the room, where all bits are wanted, and for files in bfloat16 and float32.

    Raises:
        UsageError: `GGTTS_MATRICES` says something else.
    """
    wanted = os.environ.get(MATRICES_VARIABLE)
    if wanted not in (None, "file", *_BYTES):
        raise UsageError(f"{MATRICES_VARIABLE}={wanted} is none of: file, {', '.join(_BYTES)}")
    if wanted == "file" or engine.is_cpu or engine.exact:
        return None
    if wanted:
        return wanted
    rounded = any(weights.dtype(name) not in _BYTES for name in names)
    if not rounded or not engine.device.name.startswith("cuda"):
        return None
    needed = _BYTES[WIDE_TYPE] * sum(math.prod(weights.shape(name)) for name in names)
    if 2 * needed <= engine.device.memory_free:
        return WIDE_TYPE
    _logger.info(
        "%s: its matrices stay as they are, as %s they would need %d MB",
        weights.path,
        WIDE_TYPE,
        needed // 1_000_000,
    )
    return None
