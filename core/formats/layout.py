"""Which tensors a file must hold, and their shapes: checked at opening, so that no later step has to doubt them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ..errors import ModelFileError

ANY = -1
"""In a shape: a length that the metadata does not state."""

Shape = tuple[int, ...]
Layout = dict[str, Shape]
"""Name -> shape in array order (PyTorch's)."""


class TensorTable(Protocol):
    """What is asked of a file."""

    def __contains__(self, name: str) -> bool: ...

    def names(self) -> list[str]:
        """All names, in the order of the file."""

    def shape(self, name: str) -> Shape:
        """In array order; leading ones may be missing."""


def require_layout(table: TensorTable, layout: Layout, where: str, purpose: str) -> None:
    """Raise ModelFileError unless a file holds all tensors of a layout in their shapes.

    `where` names the file in errors, `purpose` what it is wanted for: "a Qwen3-TTS talker".
    """
    missing = [name for name in layout if name not in table]
    if len(missing) == len(layout):
        present = table.names()
        shown = f"its tensors have other names ({present[0]} ...)" if present else "it holds no tensors"
        raise ModelFileError(
            f"{where}: is none of the files that are read here as {purpose}, {shown}:"
            " convert the checkpoint with ./convert.py"
        )
    if missing:
        raise ModelFileError(
            f"{where}: is incomplete, {len(missing)} of the {len(layout)} tensors of {purpose} are missing"
            f" (first: {missing[0]})"
        )
    for name, shape in layout.items():
        found = table.shape(name)
        if not fits(found, shape):
            raise ModelFileError(
                f"{where}: tensor {name} has the shape {_shown(found)}, but the metadata says {_shown(shape)}"
            )


def unknown_names(names: Iterable[str], *layouts: Layout) -> list[str]:
    """Return the names that no layout has."""
    return [name for name in names if not any(name in layout for layout in layouts)]


def fits(found: Shape, wanted: Shape) -> bool:
    """Tell whether a shape is the wanted one; GGUF does not keep leading ones."""
    found, wanted = _without_leading_ones(found), _without_leading_ones(wanted)
    if len(found) != len(wanted):
        return _without_leading_any(found, wanted)
    return all(wide in (ANY, size) for size, wide in zip(found, wanted, strict=True))


def with_bias(prefix: str, shape: Shape) -> Iterator[tuple[str, Shape]]:
    """Yield a weight of this shape and the bias of its outputs, the first axis."""
    yield f"{prefix}.weight", shape
    yield f"{prefix}.bias", shape[:1]


def _without_leading_any(found: Shape, wanted: Shape) -> bool:
    """A leading length that is not stated may be one, and then it is not kept."""
    if wanted[:1] == (ANY,) and len(wanted) > len(found):
        return fits(found, wanted[1:])
    return False


def _without_leading_ones(shape: Shape) -> Shape:
    first = next((axis for axis, size in enumerate(shape[:-1]) if size != 1), len(shape) - 1)
    return shape[max(first, 0) :]


def _shown(shape: Shape) -> str:
    return f"({', '.join('any' if size == ANY else str(size) for size in shape)})"
