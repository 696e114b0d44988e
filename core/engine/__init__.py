"""The typed Python face of the native engine: devices, weights, graphs, programs and state."""

from __future__ import annotations

from ggtts._native import ConvPlan, Tensor, exact_product, matmul, sums_of_rows

from .device import Device, default_threads, devices
from .engine import Engine
from .graph import Graph
from .nvidia import compute_capability
from .program import Program
from .state import State
from .weights import Weights, WeightScope, open_gguf

__all__ = [
    "ConvPlan",
    "Device",
    "Engine",
    "Graph",
    "Program",
    "State",
    "Tensor",
    "WeightScope",
    "Weights",
    "compute_capability",
    "default_threads",
    "devices",
    "exact_product",
    "matmul",
    "open_gguf",
    "sums_of_rows",
]
