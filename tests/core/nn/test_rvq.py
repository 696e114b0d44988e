"""Residual vector quantisation: search and lookup."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ggtts.core.engine import Engine, WeightScope
from ggtts.core.nn.rvq import CodebookSum, JoinedCodebooks, nearest_entries
from support.comparing import deviation
from support.tolerances import LAYER

RANDOM = np.random.default_rng(9)
BOOKS = RANDOM.standard_normal((3, 20, 6)).astype(np.float32)


def test_search_takes_the_nearest_entry_of_what_is_left() -> None:
    vectors = RANDOM.standard_normal((50, 6)).astype(np.float32)
    codes = nearest_entries(vectors, list(BOOKS))
    residual = vectors.astype(np.float64)
    for index, book in enumerate(BOOKS):
        distance = np.linalg.norm(residual[:, None] - book, axis=2)
        assert (codes[:, index] == distance.argmin(1)).all()
        residual -= book[codes[:, index]]


def test_the_first_of_equal_entries_wins() -> None:
    book = np.array([[4, 4], [1, 2], [1, 2], [1, 2]], np.float32)
    assert nearest_entries(np.array([[1, 2]], np.float32), [book]).tolist() == [[1]]


def test_search_over_more_vectors_than_fit_at_once() -> None:
    vectors = RANDOM.standard_normal((2100, 6)).astype(np.float32)
    alone = np.concatenate([nearest_entries(vector[None], list(BOOKS)) for vector in vectors[::100]])
    assert (nearest_entries(vectors, list(BOOKS))[::100] == alone).all()


def test_lookup(engine: Engine, scope_of: Callable[[Mapping[str, np.ndarray]], WeightScope]) -> None:
    lookup = CodebookSum(scope_of({f"{i}.codebook": book for i, book in enumerate(BOOKS)}), 3)
    codes = RANDOM.integers(0, 20, (7, 4)).astype(np.int32)
    graph = engine.graph()
    y = graph.program({"y": lookup(graph.input("codes", (7, 4), "i32"), 1)})(codes=codes.T.copy())["y"]
    assert deviation(y, sum(book[codes[:, 1 + i]] for i, book in enumerate(BOOKS))) < LAYER


def test_lookup_in_all_at_once(
    engine: Engine, scope_of: Callable[[Mapping[str, np.ndarray]], WeightScope]
) -> None:
    scope = scope_of({f"{i}.codebook": book for i, book in enumerate(BOOKS)})
    lookup = JoinedCodebooks(scope, ["0", "1", "2"])
    codes = RANDOM.integers(0, 20, (7, 3)).astype(np.int32)
    graph = engine.graph()
    entries = lookup(graph.input("rows", (3, 7), "i32"))
    y = graph.program({"y": entries})(rows=lookup.rows(codes))["y"]
    assert (y.reshape(7, 3, 6) == BOOKS[np.arange(3), codes]).all()
