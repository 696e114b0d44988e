"""Tensor dumps, in the file format of the qwentts.cpp and omnivoice.cpp validation harness.

`<name>.bin` holds int32 ndims, int32 dims[ndims] and float32 values in row-major order, all little-endian; integers
are stored as floats.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OutputError
from ..output_files import make_folder


def write_dump(folder: Path, name: str, values: NDArray[Any]) -> None:
    """Write `values` to `folder/name.bin`; the folder is created.

    Raises:
        OutputError: it cannot be written.
    """
    header = np.array([values.ndim, *values.shape], "<i4").tobytes()
    make_folder(folder)
    try:
        (folder / f"{name}.bin").write_bytes(header + np.ascontiguousarray(values, "<f4").tobytes())
    except OSError as error:
        raise OutputError(
            f"cannot write the dump {name!r} to {str(folder)!r}: {error.strerror or error}"
        ) from error


def read_dump(path: Path) -> NDArray[np.float32]:
    """Return the float32 values of a dump, in their shape.

    Raises:
        ValueError: the file is no dump.
    """
    data = path.read_bytes()
    dimensions = int(np.frombuffer(data, "<i4", 1)[0])
    shape = np.frombuffer(data, "<i4", dimensions, 4)
    return np.frombuffer(data, "<f4", offset=4 + 4 * dimensions).reshape(shape).astype(np.float32)
