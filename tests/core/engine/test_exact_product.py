"""Products in float64 against numpy, for every instruction set of this processor."""

from __future__ import annotations

import numpy as np
import pytest

from ggtts import _native
from ggtts.core.engine import exact_product, sums_of_rows

INSTRUCTION_SETS = _native.instruction_sets()


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize(
    ("rows", "outputs", "inputs"), [(125, 2048, 256), (250, 64, 1024), (1, 1, 1), (13, 37, 5), (0, 4, 3)]
)
def test_product(instruction_set: str, rows: int, outputs: int, inputs: int) -> None:
    generator = np.random.default_rng(rows)
    x, weights = generator.standard_normal((rows, inputs)), generator.standard_normal((outputs, inputs))
    weights = weights.astype(np.float32)
    y = exact_product(x, weights, instruction_set)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, x @ weights.astype(np.float64).T, atol=1e-12)


def test_a_row_does_not_depend_on_the_others() -> None:
    generator = np.random.default_rng(0)
    x, weights = generator.standard_normal((30, 70)), generator.standard_normal((50, 70)).astype(np.float32)
    whole = exact_product(x, weights)
    for row in range(30):
        np.testing.assert_array_equal(exact_product(x[row : row + 1], weights)[0], whole[row])


def test_widths_that_differ() -> None:
    with pytest.raises(ValueError, match="rows of 3 values and weights of 4"):
        exact_product(np.zeros((2, 3)), np.zeros((5, 4), np.float32))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_sums_of_rows(count: int) -> None:
    rows, others = np.random.default_rng(count).standard_normal((2, count, 33)).astype(np.float32)
    found = sums_of_rows(list(rows), list(others[::-1]))
    assert np.array_equal(found, rows + others[::-1]) if count else found.size == 0


def test_sums_of_rows_that_do_not_go_together() -> None:
    rows = np.zeros((2, 3), np.float32)
    for others in ([], [rows[0]], [rows[0], rows[0, :2]]):
        with pytest.raises(ValueError, match="as many rows"):
            sums_of_rows(list(rows), others)
