#!/usr/bin/env python3
"""Measure what the machine can do at best, to hold beside what a program does.

    python benchmarks/machine.py --threads 2

- float32: a product of two large matrices by the BLAS of NumPy, as it chooses its kernels, and as on a processor
  without AVX-512 (OPENBLAS_CORETYPE, which OpenBLAS on x86 obeys; elsewhere both are the same).
- Q8_0: a product by the kernel that the models run on, many columns at once.
- memory: every thread sums its own large array, again and again, with the dot product of BLAS.

Each is the best of several runs; what another process takes away is missing from it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

SIZE = 3072
"""Rows and columns of the matrices: large enough for the peak, and a product takes less than a second."""
SLICE_BYTES = 256 * 1024 * 1024
"""Of the array of each thread: far more than any cache."""
RUNS = 5
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
WITHOUT_AVX512 = "Haswell"


@dataclass(frozen=True)
class Machine:
    """What a machine can do: operations and bytes per second, with so many threads.

    A multiplication and an addition are two operations.
    """

    name: str
    threads: int
    float32: float
    float32_without_avx512: float
    q8_0: float
    memory: float

    @classmethod
    def measure(cls, threads: int) -> Machine:
        """Measure this machine; takes about ten seconds."""
        return cls(
            processor_name(),
            threads,
            blas_speed("products", threads),
            blas_speed("products", threads, WITHOUT_AVX512),
            q8_0_speed(threads),
            blas_speed("reading", threads),
        )

    def __str__(self) -> str:
        return (
            f"{self.name}, {self.threads} threads: float32 {self.float32 / 1e9:.0f} GFLOP/s"
            f" (without AVX-512 {self.float32_without_avx512 / 1e9:.0f}), Q8_0 {self.q8_0 / 1e9:.0f} G/s,"
            f" reading {self.memory / 1e9:.1f} GB/s"
        )


def processor_name() -> str:
    """Return what Linux calls the processor, or just its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, sys.platform)


def blas_speed(what: str, threads: int, core_type: str | None = None) -> float:
    """Measure in a process of its own: BLAS asks for its threads and its kind of processor once, when it is loaded."""
    environment = os.environ | {BLAS_THREADS: str(threads if what == "products" else 1)}
    if core_type:
        environment["OPENBLAS_CORETYPE"] = core_type
    command = [sys.executable, __file__, "--measure", what, "--threads", str(threads)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return float(result.stdout)


def product_speed() -> float:
    """Return the operations per second of a float32 product."""
    matrix = np.random.default_rng(1).standard_normal((SIZE, SIZE), np.float32)
    target = np.empty_like(matrix)
    return 2 * SIZE**3 / best_seconds(lambda: np.matmul(matrix, matrix, out=target))


def reading_speed(threads: int) -> float:
    """Return the bytes per second that so many threads read together."""
    arrays = [np.ones(SLICE_BYTES // 4, np.float32) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        return threads * SLICE_BYTES / best_seconds(lambda: list(pool.map(lambda a: np.dot(a, a), arrays)))


def q8_0_speed(threads: int) -> float:
    """Return the operations per second of a product of a Q8_0 matrix and as many float32 columns as OmniVoice has."""
    from gguf import GGMLQuantizationType, GGUFWriter
    from random_weights import RandomTensor, WeightPatterns

    from ggtts.core.engine import Engine, matmul

    columns, name = 512, "a.weight"
    tensor = RandomTensor(name, (SIZE, SIZE), 0.02)
    with tempfile.TemporaryDirectory() as folder, Engine("cpu", threads) as engine:
        path = Path(folder) / "a.gguf"
        writer = GGUFWriter(path, "products")
        kind = GGMLQuantizationType.Q8_0
        writer.add_tensor(name, WeightPatterns(1).storage(tensor, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        graph = engine.graph()
        x = graph.input("x", (SIZE, columns))
        program = graph.program({"y": matmul(engine.weights(path).matrix(name), x)})
        values = np.ones((columns, SIZE), np.float32)
        return 2 * SIZE * SIZE * columns / best_seconds(lambda: program(x=values))


def best_seconds(work: Callable[[], object]) -> float:
    """Return the shortest of several runs, after one that warms up."""
    work()
    times = []
    for _ in range(RUNS):
        begin = perf_counter()
        work()
        times.append(perf_counter() - begin)
    return min(times)


def main() -> None:
    """Print the machine, or one number for `blas_speed`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--measure", choices=("products", "reading"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure == "products":
        print(product_speed())
    elif options.measure == "reading":
        print(reading_speed(options.threads))
    else:
        print(Machine.measure(options.threads))


if __name__ == "__main__":
    main()
