"""Which devices there are, and how many threads this process may use."""

from __future__ import annotations

import atexit
import logging
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import libggml

from ggtts import _native

from ..errors import EngineError, UsageError
from .failures import native_failures

DEVICE_VARIABLE = "GGTTS_DEVICE"

_logger = logging.getLogger("ggtts.engine")
_ggml_logger = logging.getLogger("ggtts.ggml")


@dataclass(frozen=True)
class Device:
    """A device GGML can compute on. `name` is what `--device` takes; memory is in bytes, 0 where unknown."""

    name: str
    description: str
    kind: str
    memory_total: int
    memory_free: int


@cache
def load_ggml() -> None:
    """Send GGML's log to Python's `logging` until the program ends, and load backends that are separate libraries."""
    _native.set_log(_ggml_logger.log)
    atexit.register(_native.set_log, None)  # or it would keep whatever the handlers of the log know
    package = Path(next(iter(libggml.__path__)))
    for folder in ("lib64", "lib", "bin"):
        if (package / folder).is_dir():
            with native_failures():
                _native.load_backends(str(package / folder))


def devices() -> list[Device]:
    """Every device of the installed build of GGML, the CPU included."""
    return [_describe_any(info) for info in present_devices()]


def present_devices() -> list[_native.DeviceInfo]:
    """The same before they are asked for their memory. Raises EngineError where GGML does not start."""
    load_ggml()
    with native_failures():
        return _native.devices()


def describe(info: _native.DeviceInfo) -> Device:
    """Ask for the memory of a device, too, which starts its driver. Raises EngineError where that fails."""
    with native_failures():
        total, free = info.memory
    return Device(info.name, info.description, info.kind, total, free)


def _describe_any(info: _native.DeviceInfo) -> Device:
    """One that has failed, or that is full, is a device, too."""
    try:
        return describe(info)
    except EngineError as error:
        _logger.warning("%s", error)
        return Device(info.name, info.description, info.kind, 0, 0)


def choose_device(name: str | None, needed: int = 0) -> Device:
    """The device called `name`; without one, the environment's `GGTTS_DEVICE`, then a GPU, then the CPU.

    A GPU that nobody named is passed over, with a warning, when it has less than `needed` bytes free. The memory of
    devices that are not chosen is not asked for: it would start their drivers.

    Raises UsageError for a name that this build of GGML does not have, and EngineError for a device that has one but
    does not start.
    """
    present = present_devices()
    wanted = (name or os.environ.get(DEVICE_VARIABLE) or "").strip().lower()
    if not wanted:
        return _roomiest(present, needed)
    for info in present:
        if info.name == wanted:
            return describe(info)
    known = ", ".join(device.name for device in present)
    raise UsageError(f"no device {wanted!r}; this build of GGML has: {known}")


def _roomiest(present: list[_native.DeviceInfo], needed: int) -> Device:
    """The first GPU with so many bytes free, else the CPU."""
    for info in present:
        if info.kind != "gpu":
            continue
        try:
            device = describe(info)
        except EngineError as error:
            _logger.warning("%s: not using it", error)
            continue
        if device.memory_free >= needed or not device.memory_total:
            return device
        _logger.warning(
            "%s has %d MB free where about %d MB are needed: not using it",
            *(device.name, device.memory_free // 1_000_000, needed // 1_000_000),
        )
    return the_cpu()


def the_cpu() -> Device:
    """The device that is always there."""
    return next(describe(info) for info in present_devices() if info.kind == "cpu")


def default_threads() -> int:
    """Cores this process may use: its affinity, cut by the quota of its control group. At least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, cores if quota is None else min(cores, int(quota)))


def _cgroup_quota() -> float | None:
    """Cores' worth of time the control group grants, from cgroup v2 or v1; None without a limit."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            folder = Path("/sys/fs/cgroup/cpu")
            limit = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if limit == "max" or int(limit) <= 0 or int(period) <= 0:
        return None
    return int(limit) / int(period)
