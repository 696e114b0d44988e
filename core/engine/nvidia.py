"""What NVIDIA's driver says about a card beyond what GGML passes on."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_MAJOR, _MINOR = 75, 76
"""Numbers of the attributes CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR (CUDA Driver API)."""


@cache
def compute_capability(device: str) -> tuple[int, int] | None:
    """Return the compute capability of "cuda0", "cuda1", ..., (9, 0) for an H200; None where it is not to be had."""
    ordinal = device.removeprefix("cuda")
    if ordinal == device or not ordinal.isdigit():
        return None
    try:
        driver = ctypes.CDLL(_DRIVER)
        handle, values = ctypes.c_int(), (ctypes.c_int(), ctypes.c_int())
        failed = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), int(ordinal))
        for value, attribute in zip(values, (_MAJOR, _MINOR), strict=True):
            failed = failed or driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, handle)
    except (OSError, AttributeError):
        return None
    return None if failed else (values[0].value, values[1].value)
