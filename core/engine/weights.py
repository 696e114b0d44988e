"""The weights of one GGUF file on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ggtts import _native

from ..errors import ModelFileError
from ..formats.kinds import escaped, kind_of_path
from .failures import native_failures

Result = TypeVar("Result")
FloatArray = npt.NDArray[np.float32]


def open_gguf(path: str) -> _native.GgufFile:
    """Map a GGUF file; ModelFileError says what is wrong with it, or what it is instead."""
    try:
        return _native.GgufFile(path)
    except _native.FileError as error:
        message = str(error)
    except (
        UnicodeDecodeError
    ) as error:  # the message quotes what is no text: a damaged key, the name of the file
        message = error.object.decode("utf-8", "surrogateescape")
    kind = kind_of_path(Path(path))
    raise ModelFileError(f"{escaped(path)}: not a GGUF file, but {kind}" if kind else escaped(message))


class WeightScope:
    """The weights of a file whose names begin with a prefix, called by the rest of their names.

    `matrix_type` is the type that its matrices are held in; None leaves it to the engine.
    """

    def __init__(self, weights: Weights, prefix: str, matrix_type: str | None = None) -> None:
        self.weights = weights
        self.prefix = prefix
        self.matrix_type = matrix_type

    def full_name(self, name: str) -> str:
        """Return what the file calls `name`."""
        return self.prefix + name

    def scope(self, prefix: str) -> WeightScope:
        return WeightScope(self.weights, self.full_name(prefix), self.matrix_type)

    def __contains__(self, name: str) -> bool:
        return self.full_name(name) in self.weights

    def __getitem__(self, name: str) -> _native.Tensor:
        return self.tensor(name)

    def matrix(self, *names: str) -> _native.Tensor:
        return self.weights.matrix(*map(self.full_name, names), dtype=self.matrix_type)

    def can_join(self, *names: str) -> bool:
        return self.weights.can_join(*map(self.full_name, names), dtype=self.matrix_type)

    def tensor(self, name: str, dtype: str | None = None) -> _native.Tensor:
        return self.weights.tensor(self.full_name(name), dtype)

    def array(self, name: str) -> FloatArray:
        return self.weights.array(self.full_name(name))

    def rows(self, name: str, ids: Sequence[int] | npt.NDArray[np.integer[Any]]) -> FloatArray:
        return self.weights.rows(self.full_name(name), ids)

    def constant(
        self, name: str, values: FloatArray, dtype: str = "f32", *, matrix: bool = False
    ) -> _native.Tensor:
        return self.weights.constant(self.full_name(name), values, dtype, matrix=matrix)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.weights.shape(self.full_name(name))

    def dtype(self, name: str) -> str:
        return self.weights.dtype(self.full_name(name))


class Weights:
    """A memory-mapped GGUF file. Tensors are asked for by name and placed together before the next program.

    On the CPU a tensor stays where it lies in the mapped file unless a faster layout or another type is wanted.
    """

    def __init__(self, backend: _native.Backend, path: str) -> None:
        """Raises ModelFileError for a file that is missing, truncated, or not GGUF."""
        self.path = path
        self.on_cpu = backend.has_own_operations
        self.threads = backend.threads
        self.file = open_gguf(path)
        self.native = _native.Weights(backend, self.file)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """All keys of the file; arrays as lists."""
        return self.file.metadata

    @property
    def architecture(self) -> str:
        """What `general.architecture` says, or an empty string."""
        return str(self.metadata.get("general.architecture", ""))

    def names(self) -> list[str]:
        return self.file.names

    def __contains__(self, name: str) -> bool:
        return name in self.file

    def __getitem__(self, name: str) -> _native.Tensor:
        return self.tensor(name)

    def scope(self, prefix: str, matrix_type: str | None = None) -> WeightScope:
        return WeightScope(self, prefix, matrix_type)

    def shape(self, name: str) -> tuple[int, ...]:
        """In array order, without leading ones."""
        return tuple(self._checked(self.file.shape, name))

    def dtype(self, name: str) -> str:
        return str(self._checked(self.file.dtype, name))

    def matrix(self, *names: str, dtype: str | None = None) -> _native.Tensor:
        """A weight used only as the left operand of `matmul`; it may be kept in a faster layout.

        Several names are one matrix with the rows of all of them, one below the other. Raises ValueError unless they
        have one width and, without a `dtype` ("f32", "f16" or "bf16") to convert them to, one type.
        """
        return self._checked(self.native.matrix, list(names), None, dtype)

    def can_join(self, *names: str, dtype: str | None = None) -> bool:
        """Tell whether `matrix` takes these names together without holding them in memory twice."""
        return self._checked(self.native.can_join, list(names), dtype)

    def has_floats(self, name: str) -> bool:
        """Tell whether a weight is stored in float32 or a half precision, which `ConvPlan.of_file` reads."""
        return self.dtype(name) in {"f32", "f16", "bf16"}

    def tensor(self, name: str, dtype: str | None = None) -> _native.Tensor:
        """A weight as stored, or converted to "f32", "f16" or "bf16"."""
        return self._checked(self.native.tensor, name, dtype)

    def array(self, name: str) -> FloatArray:
        """A float32 copy on the host, in array order and without leading ones."""
        return self._checked(self.file.array, name)

    def rows(self, name: str, ids: Sequence[int] | npt.NDArray[np.integer[Any]]) -> FloatArray:
        """Rows `ids` of a matrix as float32 [ids, width], read on the host: only those rows are ever loaded.

        Raises IndexError for an id beyond the table.
        """
        return self._checked(self.file.rows, name, np.ascontiguousarray(ids, dtype=np.int64))

    def constant(
        self, name: str, values: FloatArray, dtype: str = "f32", *, matrix: bool = False
    ) -> _native.Tensor:
        """A weight computed on the host, placed like the others. `name` is unique in this object."""
        array = np.ascontiguousarray(values, dtype=np.float32)
        return self.native.constant(name, array, dtype, matrix)

    def place(self) -> None:
        """Give every tensor asked for so far its memory. Raises EngineError when the device has no room."""
        with native_failures():
            self.native.place()

    def _checked(self, function: Callable[..., Result], *arguments: object) -> Result:
        with native_failures():
            return function(*arguments)
