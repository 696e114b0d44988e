"""Quantising a GGUF file, block by block on all cores.

The bytes of a tensor are those of GGML's own quantisation, whose rows do not depend on each other: any number of
threads and any size of blocks gives the same file. Memory is a few blocks for each thread, whatever the size of the
model.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from shutil import disk_usage
from threading import Lock
from typing import IO, TypeVar

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType

from ggtts import _native

from ..engine import open_gguf
from ..errors import ModelFileError, OutputError, UsageError
from ..formats.gguf_types import FILE_TYPE_KEY, FILE_TYPE_NUMBERS
from ..output_files import make_folder, part_file
from .gguf_header import GgufHeader, GgufTensor, integer_entry, pad, row_size, text_entry, write_header
from .gguf_writer import QUANTIZATION_VERSION, Progress
from .quantize_plan import QuantizedTensor, QuantizeOptions, QuantizePlan, plan_quantization

VERSION_KEY = "general.quantization_version"

MEMORY = 128 * 1024 * 1024
"""Bytes of float32 values that all threads together hold."""

LARGEST_BLOCK = 1024 * 1024
"""Values of a block at most: larger ones are no faster."""

MAPPED_AT_MOST = 256 * 1024 * 1024
"""Bytes that a quantised source, which is read through a mapping, may take up in memory before it is mapped anew."""

Job = TypeVar("Job")
Result = TypeVar("Result")
Bytes = npt.NDArray[np.uint8]

__all__ = [
    "Quantization",
    "QuantizeOptions",
    "QuantizePlan",
    "plan_quantization",
    "quantize",
    "write_quantized",
]


@dataclass(frozen=True)
class Quantization:
    """What was written: the file and its bytes, what became of its tensors, and what a user should know."""

    path: Path
    size: int
    plan: QuantizePlan
    warnings: tuple[str, ...]


def quantize(
    source: str | PathLike[str],
    target: str | PathLike[str],
    type_name: str,
    options: QuantizeOptions | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Quantization:
    """Write a quantised copy of a GGUF file.

    Args:
        source: file of either family, talker or codec.
        target: file to write; it appears when it is complete.
        type_name: "Q8_0", "q4_k_m" ...: one of `quantize_plan.TYPES`.
        options: policy and exceptions.
        threads: None takes all cores that this process may use.
        progress: called with the bytes written so far and in all.

    Raises:
        ModelFileError: the source is damaged, of an unknown architecture, or holds values that are no numbers.
        UsageError: type, options and source do not go together.
        OutputError: the target cannot be written.
    """
    return write_quantized(
        plan_quantization(Path(source), type_name, options), Path(target), threads=threads, progress=progress
    )


def write_quantized(
    plan: QuantizePlan, target: Path, *, threads: int | None = None, progress: Progress | None = None
) -> Quantization:
    """Write a planned file; see `quantize`."""
    if target.exists() and target.samefile(plan.path):
        raise UsageError(f"{target} is the source itself: write to another file")
    threads = threads or _usable_cores()
    make_folder(target.parent)
    with part_file(target) as part:
        _require_room(part.path.parent, plan.size)
        with part.open() as file, _Source(plan.path) as source:
            write_header(file, _header(plan))
            _write_values(file, plan, source, threads, progress or (lambda done, total: None))
    return Quantization(target, target.stat().st_size, plan, tuple(_warnings(plan)))


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _require_room(folder: Path, size: int) -> None:
    free = disk_usage(folder).free
    if free < size:
        raise OutputError(f"{folder} has {free / 1e6:.0f} MB left, the file takes {size / 1e6:.0f} MB")


def _header(plan: QuantizePlan) -> GgufHeader:
    added = {
        VERSION_KEY: integer_entry(VERSION_KEY, QUANTIZATION_VERSION),
        FILE_TYPE_KEY: integer_entry(FILE_TYPE_KEY, FILE_TYPE_NUMBERS[plan.type_name]),
    }
    if plan.importance:
        known = sum(plan.importance.of(tensor.source.name) is not None for tensor in plan.tensors)
        # The keys that llama.cpp's quantize writes.
        key = "quantize.imatrix."
        added[f"{key}file"] = text_entry(f"{key}file", plan.importance.path.name)
        added[f"{key}entries_count"] = integer_entry(f"{key}entries_count", known)
        added[f"{key}chunks_count"] = integer_entry(f"{key}chunks_count", max(plan.importance.chunks, 0))
    tensors = [tensor.target for tensor in plan.tensors]
    return replace(plan.header, entries={**plan.header.entries, **added}, tensors=tensors)


def _warnings(plan: QuantizePlan) -> Iterator[str]:
    if plan.importance:
        weighed = [t for t in plan.tensors if not t.copied and plan.importance.of(t.source.name) is not None]
        yield f"{len(weighed)} of {plan.changed} quantised tensors were weighed by {plan.importance.path.name}"
    if plan.changed == 0:
        yield "no tensor got another type: this is a copy"


@dataclass(frozen=True)
class _Block:
    """Some rows of a tensor."""

    tensor: QuantizedTensor
    start: int
    rows: int
    last: bool


def _blocks(plan: QuantizePlan, values: int) -> Iterator[_Block]:
    for tensor in plan.tensors:
        step = max(values // tensor.source.width, 1)
        for start in range(0, tensor.source.rows, step):
            rows = min(step, tensor.source.rows - start)
            yield _Block(tensor, start, rows, start + rows == tensor.source.rows)


def _write_values(
    file: IO[bytes], plan: QuantizePlan, source: _Source, threads: int, progress: Progress
) -> None:
    waiting = threads + 2
    values = max(min(LARGEST_BLOCK, MEMORY // (4 * waiting)), 1)

    def convert(block: _Block) -> tuple[_Block, Bytes]:
        return block, _converted(block, source, plan)

    done = 0
    with ThreadPoolExecutor(threads) as pool:
        for block, contents in _in_order(pool, convert, _blocks(plan, values), waiting):
            file.write(contents.data)
            done += contents.nbytes
            if block.last:
                pad(file, plan.header.alignment)
            progress(done, plan.size)


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[Job], Result], jobs: Iterable[Job], most: int
) -> Iterator[Result]:
    """Yield the results of jobs in their order, with at most so many begun and not yet taken."""
    waiting: deque[Future[Result]] = deque()
    try:
        for job in jobs:
            waiting.append(pool.submit(work, job))
            if len(waiting) == most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _converted(block: _Block, source: _Source, plan: QuantizePlan) -> Bytes:
    tensor = block.tensor
    if tensor.copied:
        return source.stored(tensor.source, block.start, block.rows)
    values = source.values(tensor.source, block.start, block.rows)
    _require_finite(values, tensor.source.name, plan.path)
    kind = tensor.target.kind
    if kind is GGMLQuantizationType.F16:
        limit = np.finfo(np.float16).max
        values = np.clip(values, -limit, limit)
    importance = plan.importance.of(tensor.source.name) if plan.importance else None
    stored: Bytes = _native.quantize_rows(values, kind.name.lower(), importance)
    return stored


def _require_finite(values: npt.NDArray[np.float32], name: str, path: Path) -> None:
    # NaN and infinity survive a sum; a sum of finite values can only overflow where the values are absurd as well.
    with np.errstate(all="ignore"):
        total = np.add.reduce(values, axis=None)
    if not np.isfinite(total) and not np.isfinite(values).all():
        raise ModelFileError(f"{path}: {name} holds values that are no numbers (NaN or infinity)")


class _Source:
    """The values of a file, read by any number of threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY)
        self._lock = Lock()
        self._mapped: _native.GgufFile | None = None
        self._touched = 0

    def __enter__(self) -> _Source:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._descriptor)

    def stored(self, tensor: GgufTensor, start: int, rows: int) -> Bytes:
        """Return the bytes of some rows."""
        size = row_size(tensor.kind, tensor.width)
        data = os.pread(self._descriptor, rows * size, tensor.offset + start * size)
        if len(data) != rows * size:
            raise ModelFileError(f"{self._path}: became shorter while it was read")
        return np.frombuffer(data, np.uint8)

    def values(self, tensor: GgufTensor, start: int, rows: int) -> npt.NDArray[np.float32]:
        """Return some rows as float32 [rows, width]."""
        kind, shape = tensor.kind, (rows, tensor.width)
        if kind is GGMLQuantizationType.F32:
            return self.stored(tensor, start, rows).view(np.float32).reshape(shape)
        if kind is GGMLQuantizationType.F16:
            return self.stored(tensor, start, rows).view(np.float16).astype(np.float32).reshape(shape)
        if kind is GGMLQuantizationType.BF16:
            upper = self.stored(tensor, start, rows).view(np.uint16).astype(np.uint32)
            return np.left_shift(upper, 16).view(np.float32).reshape(shape)
        return self._dequantised(tensor, start, rows)

    def _dequantised(self, tensor: GgufTensor, start: int, rows: int) -> npt.NDArray[np.float32]:
        with self._lock:
            if self._mapped is None or self._touched > MAPPED_AT_MOST:
                self._mapped, self._touched = open_gguf(str(self._path)), 0
            self._touched += rows * row_size(tensor.kind, tensor.width)
            file = self._mapped
        values: npt.NDArray[np.float32] = file.rows(tensor.name, np.arange(start, start + rows))
        return values
