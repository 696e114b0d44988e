"""The device that the suite runs on: the CPU, unless `pytest --device NAME` says otherwise (docs/cuda.md)."""

from __future__ import annotations

import os

DEVICE_VARIABLE = "GGTTS_TEST_DEVICE"
"""What `--device` is passed on by, to the workers of pytest-xdist as well."""

DEVICE = os.environ.get(DEVICE_VARIABLE, "cpu")

ON_CPU = DEVICE == "cpu" and os.environ.get("GGTTS_STOCK") != "1"
"""Whether the operations that only the CPU has are under test."""
