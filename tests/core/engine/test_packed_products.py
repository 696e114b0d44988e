"""Products with quantised matrices, in the packed layout where this processor has it and GGML's elsewhere."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from ggtts import _native
from ggtts.core.engine import Engine

pytestmark = pytest.mark.cpu_only

TYPES = [Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K]
SHAPES = [(48, 256), (1, 512), (17, 256), (100, 768), (640, 1024), (16, 256), (130, 256)]
NARROW = [(17, 32), (100, 96), (16, 64)]
"""Shapes of which the blocks of K-quants are no part."""
COLUMNS = [1, 2, 5, 6, 8, 12, 13, 40]


def stored_matrix(kind: Type, rows: int, width: int) -> np.ndarray:
    """Every bit of the blocks is random but those of the half precision scales: uint8 [rows, bytes]."""
    random = np.random.default_rng([rows, width, kind])
    block, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows, width // block, size), dtype=np.uint8)
    halves = {Type.Q8_0: [0], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208]}[kind]
    for offset in halves:
        scales = random.uniform(0.001, 0.02, (rows, width // block, 1)).astype(np.float16)
        blocks[:, :, offset : offset + 2] = scales.view(np.uint8)
    return blocks.reshape(rows, -1)


def cases() -> list[tuple[Type, int, int]]:
    return [(kind, *shape) for kind in TYPES for shape in SHAPES] + [(Type.Q8_0, *shape) for shape in NARROW]


def name_of(kind: Type, rows: int, width: int) -> str:
    return f"{kind.name}-{rows}x{width}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "matrices.gguf"
    writer = gguf.GGUFWriter(path, "test")
    for case in cases():
        writer.add_tensor(name_of(*case), stored_matrix(*case), raw_dtype=case[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def rounded_to_bytes(x: np.ndarray) -> np.ndarray:
    """x [columns, width] as it is after rounding to 8 bits in blocks of 32."""
    blocks = x.reshape(len(x), -1, 32).astype(np.float64)
    scale = np.abs(blocks).max(axis=-1, keepdims=True) / 127
    rounded = np.rint(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale > 0))
    return np.asarray((rounded * scale).reshape(x.shape))


def product(engine: Engine, path: Path, names: tuple[str, ...], x: np.ndarray) -> np.ndarray:
    weights = engine.weights(path)
    graph = engine.graph()
    program = graph.program({"y": weights.matrix(*names) @ graph.input("x", x.shape[::-1])})
    return program(x=x)["y"].reshape(len(x), -1)


@pytest.mark.parametrize(("kind", "rows", "width"), cases())
def test_product(path: Path, kind: Type, rows: int, width: int) -> None:
    """Against the rounded inputs in float64. GGML's own kernels round the inputs in another way, less finely."""
    stored = gguf.dequantize(stored_matrix(kind, rows, width), kind).astype(np.float64)
    for threads in (1, 2):
        engine = Engine("cpu", threads)
        for columns in COLUMNS:
            x = np.random.default_rng(columns).standard_normal((columns, width)).astype(np.float32)
            x[0, :32] = 0
            expected = rounded_to_bytes(x) @ stored.T
            norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(stored, axis=1)[None]
            computed = product(engine, path, (name_of(kind, rows, width),), x)
            assert (np.abs(computed - expected) / np.maximum(norms, 1e-9)).max() < 3e-3


@pytest.mark.parametrize("kind", TYPES)
def test_a_column_does_not_depend_on_its_neighbours(path: Path, kind: Type) -> None:
    """Batches and single steps give the same bits."""
    x = np.random.default_rng(7).standard_normal((29, 768)).astype(np.float32)
    engine, names = Engine("cpu", 2), (name_of(kind, 100, 768),)
    whole = product(engine, path, names, x)
    for start, length in [(0, 1), (5, 3), (0, 6), (20, 8), (11, 12), (14, 15)]:
        piece = product(engine, path, names, x[start : start + length])
        np.testing.assert_array_equal(piece, whole[start : start + length])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("columns", [1, 9])
def test_joined_matrices_are_one_below_the_other(path: Path, kind: Type, columns: int) -> None:
    x = np.random.default_rng(8).standard_normal((columns, 256)).astype(np.float32)
    engine = Engine("cpu", 2)
    names = tuple(name_of(kind, rows, 256) for rows in (17, 48, 130))
    joined = product(engine, path, names, x)
    apart = np.concatenate([product(engine, path, (name,), x) for name in names], axis=1)
    np.testing.assert_array_equal(joined, apart)


@pytest.mark.parametrize(("kind", "rows", "width"), cases())
def test_instruction_sets_agree_to_the_bit(path: Path, kind: Type, rows: int, width: int) -> None:
    engine, sets = Engine("cpu", 1), _native.packed_instruction_sets()
    for columns in COLUMNS:
        x = np.random.default_rng(columns).standard_normal((columns, width)).astype(np.float32)
        results = []
        for instructions in sets:
            graph = engine.graph()
            weights = _native.Weights(engine.backend, engine.weights(path).file)
            weight = weights.matrix([name_of(kind, rows, width)], instructions)
            results.append(graph.program({"y": weight @ graph.input("x", (width, columns))})(x=x)["y"])
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])


def test_what_can_be_joined(path: Path) -> None:
    weights = Engine("cpu", 1).weights(path)
    assert not weights.can_join("Q8_0-48x256", "Q8_0-100x768"), "two widths"
    assert not weights.can_join("Q8_0-48x256", "Q4_K-48x256"), "two types"
    with pytest.raises(ValueError, match="of one type and width"):
        weights.matrix("Q8_0-48x256", "Q4_K-48x256")


def test_a_packed_matrix_outlives_its_file(path: Path) -> None:
    engine = Engine("cpu", 1)
    tensor = engine.weights(path).matrix("Q8_0-48x256")
    assert "48x256" in repr(tensor)
    graph = engine.graph()
    program = graph.program({"y": graph.use(tensor) @ graph.input("x", (256, 1))})
    assert np.isfinite(program(x=np.ones((1, 256), np.float32))["y"]).all()
    with pytest.raises(ValueError, match="does not fit"):
        tensor @ engine.graph().input("x", (128, 1))
