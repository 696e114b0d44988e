"""Sequences side by side, with channels or positions as neighbours in memory."""

from __future__ import annotations

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.nn.lanes import apart, channels_first, joined, side_by_side, time_first


@pytest.mark.parametrize(
    ("channels", "time", "lanes"), [(6, 5, 3), (6, 5, 1), (1, 5, 2), (6, 1, 3), (1, 1, 1)]
)
def test_there_and_back(engine: Engine, channels: int, time: int, lanes: int) -> None:
    values = np.random.default_rng(0).standard_normal((lanes, time, channels)).astype(np.float32)
    graph = engine.graph()
    x = graph.input("x", (channels, time, lanes)) * 1.0
    turned = time_first(x)
    view = channels_first(turned, lanes)
    results = graph.program(
        {
            "turned": turned,
            "joined": joined(view),
            "apart": apart(joined(x), lanes),
            "side by side": side_by_side(view),
            "again": time_first(view),
        }
    )(x=values)
    by_position = values.reshape(lanes * time, channels)
    assert turned.shape == (lanes * time, channels, 1, 1)
    assert view.shape == x.shape
    for name, expected in {
        "turned": by_position.T,
        "again": by_position.T,
        "joined": by_position,
        "apart": values,
        "side by side": values,
    }.items():
        assert (results[name].reshape(expected.shape) == expected).all(), name


def test_positions_side_by_side_stay_where_they_are(engine: Engine) -> None:
    x = engine.graph().input("x", (10, 4))
    assert time_first(channels_first(x, 2)).is_contiguous
    assert side_by_side(x) is x
