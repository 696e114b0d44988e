"""Products with Q8_0 matrices, in the packed layout where this processor has it and GGML's elsewhere."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from ggtts.core.engine import Engine

Q8_0 = gguf.GGMLQuantizationType.Q8_0

SHAPES = [(48, 256), (1, 32), (17, 64), (100, 96), (640, 1024), (16, 32)]
COLUMNS = [1, 2, 5, 12, 13, 40]


def matrix(rows: int, width: int) -> np.ndarray:
    return np.random.default_rng(rows + width).standard_normal((rows, width)).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("q8") / "matrices.gguf"
    writer = gguf.GGUFWriter(path, "test")
    for rows, width in SHAPES:
        writer.add_tensor(f"{rows}x{width}", gguf.quantize(matrix(rows, width), Q8_0), raw_dtype=Q8_0)
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


def product(engine: Engine, path: Path, name: str, x: np.ndarray) -> np.ndarray:
    weights = engine.weights(path)
    graph = engine.graph()
    program = graph.program({"y": weights.matrix(name) @ graph.input("x", x.shape[::-1])})
    return program(x=x)["y"].reshape(len(x), -1)


@pytest.mark.parametrize(("rows", "width"), SHAPES)
def test_product(path: Path, rows: int, width: int) -> None:
    """Against the rounded inputs in float64; GGML's kernel rounds the scales to half precision."""
    stored = gguf.dequantize(gguf.quantize(matrix(rows, width), Q8_0), Q8_0)
    for threads in (1, 2):
        engine = Engine("cpu", threads)
        for columns in COLUMNS:
            x = np.random.default_rng(columns).standard_normal((columns, width)).astype(np.float32)
            x[0, :32] = 0
            expected = rounded_to_bytes(x) @ stored.T
            norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(stored, axis=1)[None]
            error = np.abs(product(engine, path, f"{rows}x{width}", x) - expected) / np.maximum(norms, 1e-9)
            assert error.max() < 1e-3


def test_a_column_does_not_depend_on_its_neighbours(path: Path) -> None:
    """Batches and single steps give the same bits."""
    x = np.random.default_rng(7).standard_normal((29, 96)).astype(np.float32)
    engine = Engine("cpu", 2)
    whole = product(engine, path, "100x96", x)
    for start, length in [(0, 1), (5, 3), (11, 12), (14, 15)]:
        piece = product(engine, path, "100x96", x[start : start + length])
        np.testing.assert_array_equal(piece, whole[start : start + length])


def test_a_packed_matrix_outlives_its_file(path: Path) -> None:
    engine = Engine("cpu", 1)
    tensor = engine.weights(path).matrix("48x256")
    assert "48x256" in repr(tensor)
    graph = engine.graph()
    program = graph.program({"y": graph.use(tensor) @ graph.input("x", (256, 1))})
    assert np.isfinite(program(x=np.ones((1, 256), np.float32))["y"]).all()
    with pytest.raises(ValueError, match="does not fit"):
        tensor @ engine.graph().input("x", (128, 1))
