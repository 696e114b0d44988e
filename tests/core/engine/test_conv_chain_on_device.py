"""Chains of convolutions on an NVIDIA card (`pytest --device cuda0`), against float64 and against themselves."""

from __future__ import annotations

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.engine.conv_chain import ConvChain, Products
from support.comparing import same
from support.conv_chains import (
    DEVIATIONS,
    KINDS,
    ODD,
    REAL,
    SEVERAL,
    Stream,
    block,
    build,
    deviation,
    expected,
    make_layer,
    make_stream,
)
from support.device import DEVICE

pytestmark = pytest.mark.skipif(not DEVICE.startswith("cuda"), reason="needs an NVIDIA card")

LONGER = 2
"""How much further than the emulation a card may be from float64: its matrix units cut sums off."""


@pytest.fixture(scope="module")
def engine() -> Engine:
    engine = Engine(DEVICE)
    if not ConvChain.fits(engine):
        pytest.skip("built without GGTTS_CUDA, or a card without such matrix units")
    return engine


@pytest.mark.parametrize("products", KINDS)
@pytest.mark.parametrize("case", [*REAL, *ODD])
def test_layers(engine: Engine, case: str, products: Products) -> None:
    inputs, outputs, taps, dilation, stride, streams, time = {**REAL, **ODD}[case]
    layer = make_layer(inputs, outputs, taps, dilation, stride=stride)
    stream = make_stream(engine, [layer], streams, time)
    chain = build(engine, [layer], products, None)
    found = stream.run(chain, stream.memory(chain), 0, time)
    assert deviation(found, expected(stream)) < LONGER * DEVIATIONS[products]


@pytest.mark.parametrize("products", KINDS)
def test_pieces_are_the_whole_to_the_last_bit(engine: Engine, products: Products) -> None:
    stream = make_stream(engine, block(), 5, 12)
    chain = build(engine, block(), products, None)
    whole = stream.run(chain, stream.memory(chain), 0, 12)
    assert deviation(whole, expected(stream)) < SEVERAL * LONGER * DEVIATIONS[products]
    memory, found, first = stream.memory(chain), [], 0
    for time in (1, 2, 1, 8):
        found.append(stream.run(chain, memory, first, time))
        first += time
    assert same(np.concatenate(found, axis=1), whole)


def test_streams_do_not_depend_on_each_other(engine: Engine) -> None:
    together = make_stream(engine, block(), 64, 5)
    chain = build(engine, block(), "f16", None)
    all_of_them = together.run(chain, together.memory(chain), 0, 5)
    for number in (0, 21, 63):
        alone = Stream(
            engine, block(), together.x[number : number + 1], [together.lanes[number]], together.memories
        )
        assert same(alone.run(chain, alone.memory(chain), 0, 5)[0], all_of_them[number])


def test_a_hundred_repeats(engine: Engine) -> None:
    stream = make_stream(engine, block(), 16, 8)
    chain = build(engine, block(), "f16", None)
    first = stream.run(chain, stream.memory(chain), 0, 8)
    for _ in range(100):
        assert same(stream.run(chain, stream.memory(chain), 0, 8), first)
