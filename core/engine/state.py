"""State: tensors that keep their contents between the runs of programs."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ggtts import _native

from .failures import native_failures


class State:
    """What `Engine.state` returns: named tensors on a device. Any number of threads may use it.

    Shapes of arrays are those of the tensors reversed, without leading ones. What reads or writes raises an EngineError
    where the device fails.

    Attributes:
        native: for what is made of native parts.
    """

    __slots__ = ("native",)

    def __init__(self, native: _native.State) -> None:
        """See `Engine.state`."""
        self.native = native

    def __getitem__(self, name: str) -> _native.Tensor:
        """A tensor for graphs. Raises IndexError."""
        return self.native[name]

    @property
    def names(self) -> list[str]:
        """The tensors that there are."""
        return self.native.names

    @property
    def bytes(self) -> int:
        """What it takes on the device."""
        return self.native.bytes

    def zero(self) -> None:
        """Fill all tensors with zeros."""
        with native_failures():
            self.native.zero()

    def read(self, name: str) -> NDArray[Any]:
        """Return a copy of a tensor. Raises IndexError."""
        with native_failures():
            values: NDArray[Any] = self.native.read(name)
        return values

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Replace the contents of a tensor. Raises IndexError; TypeError and ValueError for another type or shape."""
        with native_failures():
            self.native.write(name, array)

    def copy_from(self, other: State) -> None:
        """Copy the tensors of another state, which has all of them. Raises ValueError for another type or shape."""
        with native_failures():
            self.native.copy_from(other.native)
