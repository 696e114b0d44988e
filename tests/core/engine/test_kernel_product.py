"""Matrix products of the predictor's kernel for many columns, emulated, against products in float64."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from ggtts.core.engine.predictor_plan import kernel_product

TYPES = ["q8_0", "f16", "bf16"]

ACCURACY = 3e-7
"""Largest deviation relative to the product of the lengths of a row and a column."""

pytestmark = pytest.mark.cpu_only


def stored(weights: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return weights as a file stores them, and what they then are."""
    kind = GGMLQuantizationType[dtype.upper()]
    rows = quants.quantize(weights, kind)
    return np.ascontiguousarray(rows).view(np.uint8).reshape(len(weights), -1), quants.dequantize(rows, kind)


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def deviation(weights: np.ndarray, x: np.ndarray, found: np.ndarray) -> float:
    x, weights = x.astype(np.float64), weights.astype(np.float64)
    expected = x @ weights.T
    lengths = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(weights, axis=1)
    return float(np.max(np.abs(found - expected) / lengths))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "width"), [(32, 32), (64, 64), (70, 544), (64, 1536), (4160, 96)])
@pytest.mark.parametrize("gated", [False, True])
def test_products(dtype: str, rows: int, width: int, gated: bool) -> None:
    raw, weights = stored(random(rows, rows, width), dtype)
    x = random(width, 24, width)
    assert deviation(weights, x, kernel_product(raw, dtype, x, gated)) < ACCURACY


@pytest.mark.parametrize("dtype", TYPES)
def test_a_column_does_not_depend_on_others(dtype: str) -> None:
    raw, _ = stored(random(0, 96, 1024), dtype)
    x = random(1, 64, 1024)
    all_columns = kernel_product(raw, dtype, x)
    for count in (8, 16, 40):
        np.testing.assert_array_equal(kernel_product(raw, dtype, x[:count]), all_columns[:count])
    x[:8] *= 1e9
    np.testing.assert_array_equal(kernel_product(raw, dtype, x)[8:], all_columns[8:])


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-6, 1e6, 1e30])
def test_any_range_of_activations(scale: float) -> None:
    raw, weights = stored(random(2, 32, 256), "q8_0")
    x = random(3, 8, 256) * np.float32(scale)
    x[:, 32:64] *= 1e-3  # each block has its own power of two
    assert deviation(weights, x, kernel_product(raw, "q8_0", x)) < ACCURACY


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_any_range_of_bfloat16_weights(scale: float) -> None:
    raw, weights = stored(random(4, 32, 256) * np.float32(scale), "bf16")
    x = random(5, 8, 256)
    assert deviation(weights, x, kernel_product(raw, "bf16", x)) < ACCURACY


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_spoils_its_column_only(value: float) -> None:
    raw, _ = stored(random(6, 32, 128), "q8_0")
    x = random(7, 8, 128)
    x[3, 70] = value
    found = kernel_product(raw, "q8_0", x)
    assert np.isnan(found[3]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()


def test_zeros() -> None:
    raw, _ = stored(random(8, 32, 128), "q8_0")
    assert not kernel_product(raw, "q8_0", np.zeros((8, 128), np.float32)).any()


def test_what_does_not_fit() -> None:
    raw, _ = stored(random(9, 32, 128), "q8_0")
    for columns, width in ((7, 128), (8, 96)):
        with pytest.raises(ValueError, match="do not fit"):
            kernel_product(raw, "q8_0", np.zeros((columns, width), np.float32))
