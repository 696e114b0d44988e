"""How a GPU holds the matrices of a model that sees a hundred positions and more at a time."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence

from ..engine import Engine, Weights, compute_capability
from ..errors import UsageError

MATRICES_VARIABLE = "GGTTS_MATRICES"
"""Environment variable: how a GPU holds such matrices; "file", "bf16" or "f32"."""

WIDE_TYPE = "bf16"
"""What they become where nothing else is said."""

FULL_RATE = frozenset({(8, 0), (9, 0), (10, 0), (10, 3)})
"""Compute capabilities of cards that sum products of bfloat16 in float32 at full rate, those for data centres. Others
do it at half the rate, or not in their tensor cores, where the kernels for quantised matrices are no slower."""

_BYTES = {"bf16": 2, "f32": 4}

_logger = logging.getLogger("ggtts.nn")


def many_positions_type(engine: Engine, weights: Weights, names: Sequence[str]) -> str | None:
    """Return the type in which a GPU holds matrices of a file that see a hundred positions and more at a time.

    GGML multiplies quantised matrices with activations rounded to 8 bits, in kernels of its own, and expands those in
    float16 for every product. Where a GPU multiplies floats at full rate, NVIDIA's library with matrices that are
    floats already is faster, and rounds less. They take more memory, so they have to fit into half of what is free.

    Returns:
        None for matrices as the file has them: on the CPU, on GPUs other than `FULL_RATE` or without the room, where
        all bits are wanted, and for files in bfloat16 and float32.

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
    if not rounded or compute_capability(engine.device.name) not in FULL_RATE:
        return None
    needed = _BYTES[WIDE_TYPE] * sum(math.prod(weights.shape(name)) for name in names)
    if 2 * needed <= engine.device.memory_free:
        return WIDE_TYPE
    _logger.info(
        "%s: as %s the matrices would need %d MB: they stay as they are",
        *(weights.path, WIDE_TYPE, needed // 1_000_000),
    )
    return None
