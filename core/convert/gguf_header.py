"""What stands before the values of a GGUF file, kept as bytes so that a copy has the very same metadata.

The layout is that of the GGUF specification (ggml/docs/gguf.md), versions 2 and 3, which differ in nothing that matters
here: magic, version, counts, keys with typed values, then name, dimensions, type and offset of each tensor.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO

from gguf import GGML_QUANT_SIZES, GGUF_DEFAULT_ALIGNMENT, GGMLQuantizationType, GGUFValueType

from ..engine import open_gguf
from ..errors import ModelFileError

VERSION = 3
ALIGNMENT_KEY = "general.alignment"

_SCALAR_FORMATS: dict[GGUFValueType, str] = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "B",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of a file.

    Attributes:
        name: as the file spells it.
        dimensions: fastest first, as the file lists them.
        kind: how its values are stored.
        offset: of its first byte in the file.
    """

    name: str
    dimensions: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int

    @property
    def width(self) -> int:
        """Values of a row."""
        return self.dimensions[0] if self.dimensions else 1

    @property
    def rows(self) -> int:
        """Rows, over all other dimensions."""
        return prod(self.dimensions[1:])

    @property
    def values(self) -> int:
        """How many values there are."""
        return self.width * self.rows

    @property
    def size(self) -> int:
        """Bytes in the file, without padding."""
        return self.rows * row_size(self.kind, self.width)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in NumPy order."""
        return tuple(reversed(self.dimensions))


@dataclass(frozen=True)
class GgufHeader:
    """Keys, each with its bytes as they stand in the file (the key included), and tensors, both in file order."""

    entries: Mapping[str, bytes]
    tensors: Sequence[GgufTensor]
    alignment: int


def row_size(kind: GGMLQuantizationType, width: int) -> int:
    """Return the bytes of a row of so many values."""
    block_values, block_bytes = GGML_QUANT_SIZES[kind]
    return width // block_values * block_bytes


def read_header(path: Path) -> GgufHeader:
    """Read the header of a file.

    Raises:
        ModelFileError: the file is missing, truncated or no GGUF file, or holds a type that is not known here.
    """
    # The native reader checks every size against the file, so that the walk below need not.
    open_gguf(str(path))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _Walk(data).header()
        except ValueError as error:
            raise ModelFileError(f"{path}: {error}") from None


class _Walk:
    """Reads one thing after the other from a header that is known to be sound."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._position = 0

    def header(self) -> GgufHeader:
        self._position = 8
        tensor_count, entry_count = self._number("Q"), self._number("Q")
        entries = dict(self._entry() for _ in range(entry_count))
        listed = [self._tensor() for _ in range(tensor_count)]
        alignment = _alignment(entries)
        start = -(-self._position // alignment) * alignment
        tensors = [GgufTensor(name, sizes, kind, start + offset) for name, sizes, kind, offset in listed]
        return GgufHeader(entries, tensors, alignment)

    def _number(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self._data, self._position)
        self._position += struct.calcsize(f"<{form}")
        return int(value)

    def _text(self) -> str:
        length = self._number("Q")
        self._position += length
        return self._data[self._position - length : self._position].decode("utf-8", "surrogateescape")

    def _entry(self) -> tuple[str, bytes]:
        start = self._position
        key = self._text()
        self._skip_value()
        return key, self._data[start : self._position]

    def _skip_value(self) -> None:
        kind, count = GGUFValueType(self._number("I")), 1
        if kind is GGUFValueType.ARRAY:
            kind, count = GGUFValueType(self._number("I")), self._number("Q")
        if kind is GGUFValueType.STRING:
            for _ in range(count):
                length = self._number("Q")
                self._position += length
        else:
            self._position += count * struct.calcsize(f"<{_SCALAR_FORMATS[kind]}")

    def _tensor(self) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
        name = self._text()
        sizes = tuple(self._number("Q") for _ in range(self._number("I")))
        return name, sizes, GGMLQuantizationType(self._number("I")), self._number("Q")


def _alignment(entries: Mapping[str, bytes]) -> int:
    entry = entries.get(ALIGNMENT_KEY)
    return GGUF_DEFAULT_ALIGNMENT if entry is None else int(struct.unpack("<I", entry[-4:])[0])


def integer_entry(key: str, value: int) -> bytes:
    """Return the bytes of a key with an unsigned 32-bit integer."""
    return _text(key) + struct.pack("<II", GGUFValueType.UINT32, value)


def text_entry(key: str, value: str) -> bytes:
    """Return the bytes of a key with a string."""
    return _text(key) + struct.pack("<I", GGUFValueType.STRING) + _text(value)


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(encoded)) + encoded


def write_header(file: IO[bytes], header: GgufHeader) -> None:
    """Write a header up to where the values begin; the offsets of its tensors are not looked at but made anew."""
    file.write(b"GGUF" + struct.pack("<IQQ", VERSION, len(header.tensors), len(header.entries)))
    for entry in header.entries.values():
        file.write(entry)
    for tensor, offset in zip(header.tensors, _offsets(header), strict=True):
        sizes = struct.pack(f"<I{len(tensor.dimensions)}Q", len(tensor.dimensions), *tensor.dimensions)
        file.write(_text(tensor.name) + sizes + struct.pack("<IQ", tensor.kind, offset))
    pad(file, header.alignment)


def pad(file: IO[bytes], alignment: int) -> None:
    """Write zeros up to a multiple of the alignment."""
    file.write(bytes(-file.tell() % alignment))


def _offsets(header: GgufHeader) -> Iterator[int]:
    offset = 0
    for tensor in header.tensors:
        yield offset
        offset += -(-tensor.size // header.alignment) * header.alignment
