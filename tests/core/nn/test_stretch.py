"""Parts of a sequence."""

from __future__ import annotations

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.nn.stretch import Span, Stretch, tiles


def test_spans() -> None:
    span = Span(-2, 9)
    assert span.length == 11
    assert span.within(5) == Span(0, 5)
    assert span.scaled(3) == Span(-6, 27)


def test_a_span_holds_something() -> None:
    with pytest.raises(ValueError, match="positions 4 to 4 are none"):
        Span(4, 4)


@pytest.mark.parametrize(
    ("total", "expected"), [(0, []), (3, [(0, 3)]), (4, [(0, 4)]), (9, [(0, 4), (4, 8), (8, 9)])]
)
def test_tiles(total: int, expected: list[tuple[int, int]]) -> None:
    assert [(span.first, span.end) for span in tiles(total, 4)] == expected


def test_parts_know_where_the_sequence_ends(engine: Engine) -> None:
    whole = Stretch.whole(engine.graph().input("x", (2, 10)))
    assert (whole.first, whole.end, whole.begins, whole.ends) == (0, 10, True, True)
    middle = whole.part(Span(3, 7))
    assert (middle.first, middle.end, middle.begins, middle.ends) == (3, 7, False, False)
    assert whole.part(Span(0, 10)) is whole
    with pytest.raises(ValueError, match="positions 3 to 8 of a stretch from 3 to 7"):
        middle.part(Span(3, 8))


def test_sums_and_functions(engine: Engine) -> None:
    graph = engine.graph()
    long, short = Stretch(graph.input("x", (2, 6)), 4, 20), Stretch(graph.input("y", (2, 3)), 5, 20)
    total = long.plus(short).each(lambda values: values * 2.0)
    assert (total.first, total.end, total.total) == (5, 8, 20)
    x, y = np.random.default_rng(1).standard_normal((2, 6, 2)).astype(np.float32)
    assert (graph.program({"z": total.values})(x=x, y=y[:3])["z"] == 2 * (x[1:4] + y[:3])).all()
