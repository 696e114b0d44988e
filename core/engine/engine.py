"""One device with its threads: where weights live and graphs run."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType

from ggtts import _native

from ..errors import EngineError, UsageError
from .device import (
    DEVICE_VARIABLE,
    Device,
    choose_device,
    default_threads,
    describe,
    present_devices,
    the_cpu,
)
from .failures import native_failures
from .graph import Graph
from .state import State
from .weights import Weights

MAX_OPERATIONS = 4096

EXACT_VARIABLE = "GGTTS_EXACT"
"""Environment variable: "1" keeps all bits of float32 products on a GPU, for comparisons; slower."""

STOCK_VARIABLE = "GGTTS_STOCK"
"""Environment variable: "1" leaves out what is not GGML's own: the CPU computes as GPUs do, and GPUs alike."""

KEEPING_ALL_BITS = {
    "NVIDIA_TF32_OVERRIDE": "0",
    "GGML_VK_DISABLE_COOPMAT": "1",
    "GGML_VK_DISABLE_COOPMAT2": "1",
    "GGML_VK_DISABLE_F16": "1",
}
"""What NVIDIA's own libraries and GGML's Vulkan backend look at when a device is first opened in a process: float32
products are rounded to TF32 by the one, to float16 by the other, unless told otherwise."""

WORKING_ROOM = 300_000_000
"""Bytes beside the weights: driver, caches, intermediate results of a short text."""

THREADS_TO_SHARE = 4
"""CPU threads, at least, of which some can be set aside for a second engine: with fewer, the first one misses them."""

StateLayout = Mapping[str, tuple[Sequence[int], str]]


_logger = logging.getLogger("ggtts.engine")


def _usable_threads(wanted: int | None) -> int:
    """More threads than cores would only wait for each other."""
    if wanted is None:
        return default_threads()
    cores = os.cpu_count() or wanted
    if wanted > cores:
        _logger.warning(
            "%d threads were asked for, this machine has %d cores: using %d", wanted, cores, cores
        )
    return min(wanted, cores)


def _memory_for(files: Sequence[str | PathLike[str]]) -> int:
    """Bytes that weights take on a GPU, roughly: convolutions are kept in float32 there."""
    sizes = [Path(file).stat().st_size for file in files if Path(file).is_file()]
    return sum(sizes) * 3 // 2 + WORKING_ROOM if sizes else 0


def _is_stock() -> bool:
    return os.environ.get(STOCK_VARIABLE) == "1"


def _keeps_all_bits(device: Device) -> bool:
    """Whether products are to be exact; those of our own on the CPU always are."""
    return (device.kind != "cpu" or _is_stock()) and os.environ.get(EXACT_VARIABLE) == "1"


def _start(device: Device, threads: int | None) -> _native.Backend:
    exact, stock = _keeps_all_bits(device), _is_stock()
    if exact:
        os.environ.update(KEEPING_ALL_BITS)
    with native_failures():
        return _native.Backend(device.name, _usable_threads(threads), exact=exact, stock=stock)


class Engine:
    """A device ready to compute. Weights, graphs and state made from it keep it alive as long as they need it.

    Any number of threads may run programs of one engine; the device takes them one at a time.
    """

    def __init__(
        self,
        device: str | None = None,
        threads: int | None = None,
        *,
        files: Sequence[str | PathLike[str]] = (),
    ) -> None:
        """Open a device.

        Args:
            device: "cpu", "cuda0", ...; None takes $GGTTS_DEVICE, or the best one present that starts and has room.
            threads: CPU threads; None takes all usable cores.
            files: whose weights it will hold.

        Raises:
            UsageError: an unknown device, or a thread count below 1.
            EngineError: the device that was asked for does not start.
        """
        if threads is not None and threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        chosen = choose_device(device, _memory_for(files))
        try:
            self.backend = _start(chosen, threads)
        except EngineError as error:
            if device or os.environ.get(DEVICE_VARIABLE) or chosen.kind == "cpu":
                raise
            _logger.warning("%s: using the CPU", error)
            chosen = the_cpu()
            self.backend = _start(chosen, threads)
        self.device: Device = chosen
        self.exact = _keeps_all_bits(chosen)
        """Whether a GPU was told to keep all bits of float32 products."""

    @property
    def threads(self) -> int:
        return self.backend.threads

    @property
    def is_cpu(self) -> bool:
        """Whether the fused CPU operations can run here."""
        return self.backend.has_own_operations

    def has_to_spare(self, memory: int) -> bool:
        """Tell whether the device has twice that many bytes free now; so too where nobody knows.

        Raises EngineError where the device has failed.
        """
        now = next(
            (describe(info) for info in present_devices() if info.name == self.device.name), self.device
        )
        return not now.memory_total or 2 * memory <= now.memory_free

    def beside(self, *, always: bool = False) -> Engine | None:
        """Return a second engine on the same device, whose programs run while those of this one do.

        Programs of both may use the same weights. On a GPU the second one has a stream of its own. On a CPU it has all
        threads while this one rests, and a quarter of them while both compute or share (`begin_sharing`); its part is
        small because it is meant for what is bound by arithmetic, and what this one does is bound by memory.

        Args:
            always: make one on any device, and on a CPU with any number of threads.

        Returns:
            None where nothing is gained: on a CPU with fewer than 4 threads, and on devices other than NVIDIA's, whose
            backends are not known to serve two threads at once. Nor where the device does not start again.

        Raises:
            EngineError: it does not, and there had to be one.
        """
        gains = self.threads >= THREADS_TO_SHARE if self.device.kind == "cpu" else "cuda" in self.device.name
        if not gains and not always:
            return None
        twin = copy.copy(self)
        try:
            twin.backend = _native.Backend.beside(self.backend, max(1, self.threads // THREADS_TO_SHARE))
        except _native.DeviceError as error:
            if always:
                raise EngineError(str(error)) from error
            _logger.warning("%s: computing one thing after the other", error)
            return None
        return twin

    @contextmanager
    def right_of_way(self) -> Iterator[None]:
        """Let a second engine go first: what the first one would run meanwhile waits, unless it has begun.

        On a GPU whose processors are all taken by the first one, what the second one runs gets the gaps only. Nothing
        waits on a CPU, where both have threads of their own; nor for an engine that is no second one.
        """
        self.backend.take_right_of_way()
        try:
            yield
        finally:
            self.backend.leave_right_of_way()

    def begin_sharing(self) -> None:
        """Of a second engine: leave threads to the first one also between its runs, for it is at work.

        That holds until `end_sharing`; calls add up.
        """
        self.backend.begin_sharing()

    def end_sharing(self) -> None:
        """Take all threads again where the first engine does not run."""
        self.backend.end_sharing()

    def weights(self, path: str | PathLike[str]) -> Weights:
        """Open a GGUF file for this device. Raises ModelFileError when it cannot be used."""
        return Weights(self.backend, fspath(path))

    def graph(self, max_operations: int = MAX_OPERATIONS) -> Graph:
        """An empty graph with room for `max_operations` operations."""
        return Graph(self, max_operations)

    def state(self, layout: StateLayout) -> State:
        """Zero-filled tensors that keep their contents between runs: name -> (shape in GGML order, type).

        Raises EngineError when the device fails or has not enough memory.
        """
        entries = [(name, (list(shape), dtype)) for name, (shape, dtype) in layout.items()]
        with native_failures():
            return State(_native.State(self.backend, entries))

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to do: memory goes with the last object that uses it."""
