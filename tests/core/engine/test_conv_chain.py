"""Chains of convolutions, the kernels of GPUs emulated on the CPU, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.engine.conv_chain import USUAL_PRODUCTS, ChainLayer, ConvChain, Products
from ggtts.core.errors import EngineError
from support.comparing import same
from support.conv_chains import (
    DEVIATIONS,
    KINDS,
    NUMBERS,
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

pytestmark = pytest.mark.cpu_only


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine("cpu", threads=1)


@pytest.mark.parametrize("products", KINDS)
@pytest.mark.parametrize("case", [*REAL, *ODD])
def test_layers(engine: Engine, case: str, products: Products) -> None:
    inputs, outputs, taps, dilation, stride, streams, time = {**REAL, **ODD}[case]
    layer = make_layer(inputs, outputs, taps, dilation, stride=stride)
    stream = make_stream(engine, [layer], streams, time)
    chain = build(engine, [layer], products)
    memory = stream.memory(chain)
    found = stream.run(chain, memory, 0, time)
    assert deviation(found, expected(stream)) < DEVIATIONS[products]
    for number, before in enumerate(stream.memories):
        after = before.copy()
        after[stream.lanes] = np.concatenate([before[stream.lanes], stream.x], axis=1)[:, -before.shape[1] :]
        kept = memory.read(str(number)).reshape(after.shape)
        assert same(kept.astype(np.float32), after.astype(NUMBERS[chain.dtype]).astype(np.float32))


@pytest.mark.parametrize("products", KINDS)
def test_a_chain(engine: Engine, products: Products) -> None:
    stream = make_stream(engine, block(), 3, 15)
    chain = build(engine, block(), products)
    found = stream.run(chain, stream.memory(chain), 0, 15)
    assert deviation(found, expected(stream)) < SEVERAL * DEVIATIONS[products]
    assert np.abs(found).max() == 1


@pytest.mark.parametrize("products", KINDS)
@pytest.mark.parametrize("pieces", [[1] * 7, [4, 2, 1], [3, 4]])
def test_pieces_are_the_whole_to_the_last_bit(engine: Engine, pieces: list[int], products: Products) -> None:
    """Whatever tiles there are, and whichever blocks compute the segments of one."""
    stream = make_stream(engine, block(), 2, 7)
    chain, found, first = build(engine, block(), products, processors=1), [], 0
    whole = stream.run(chain, stream.memory(chain), 0, 7)
    chain = build(engine, block(), products, processors=200)
    memory = stream.memory(chain)
    for time in pieces:
        found.append(stream.run(chain, memory, first, time))
        first += time
    assert same(np.concatenate(found, axis=1), whole)


def test_streams_do_not_depend_on_each_other(engine: Engine) -> None:
    together = make_stream(engine, block(), 9, 5)
    chain = build(engine, block(), processors=20)
    all_of_them = together.run(chain, together.memory(chain), 0, 5)
    chain = build(engine, block(), processors=132)
    for number in (0, 4, 8):
        alone = Stream(
            engine, block(), together.x[number : number + 1], [together.lanes[number]], together.memories
        )
        assert same(alone.run(chain, alone.memory(chain), 0, 5)[0], all_of_them[number])


def test_what_is_no_number_stays_in_its_stream(engine: Engine) -> None:
    stream = make_stream(engine, block(), 3, 6)
    chain = build(engine, block())
    good = stream.run(chain, stream.memory(chain), 0, 6)
    stream.x[1, 2] = np.nan
    bad = stream.run(chain, stream.memory(chain), 0, 6)
    assert np.isnan(bad[1, -1]).all()
    assert same(bad[0], good[0])
    assert same(bad[2], good[2])


def test_a_large_run_follows_a_small_one(engine: Engine) -> None:
    chain, layers = build(engine, block()), block()
    for streams in (1, 70, 2):
        stream = make_stream(engine, layers, streams, 2, seed=streams)
        assert (
            deviation(stream.run(chain, stream.memory(chain), 0, 2), expected(stream))
            < SEVERAL * DEVIATIONS[USUAL_PRODUCTS]
        )


def test_layers_that_do_not_fit(engine: Engine) -> None:
    chain = build(engine, [make_layer(8, 12, 3)])
    with pytest.raises(ValueError, match="a layer of 8 inputs where 12 come"):
        chain.add(make_layer(8, 8, 1))
    with pytest.raises(ValueError, match="joins a trunk of another shape"):
        chain.add(make_layer(12, 8, 1, trunk="joins"))
    with pytest.raises(ValueError, match="few outputs are limited"):
        chain.add(make_layer(12, 8, 1, limited=True))
    with pytest.raises(ValueError, match="a bias must have 8 values"):
        chain.add(ChainLayer(np.zeros((1, 8, 12), np.float32), np.zeros(3, np.float32)))


def test_memory_that_does_not_fit(engine: Engine) -> None:
    layers = [make_layer(8, 12, 3)]
    chain, stream = build(engine, layers), make_stream(engine, layers, 2, 4)
    with pytest.raises(ValueError, match="a lane that the memory does not have"):
        Stream(engine, layers, stream.x, [0, 9], stream.memories).run(chain, stream.memory(chain), 0, 4)
    shorter = [memory[:, 1:] for memory in stream.memories]
    with pytest.raises(ValueError, match="the memory of layer 0 has another shape"):
        stream.run(chain, Stream(engine, layers, stream.x, stream.lanes, shorter).memory(chain), 0, 4)
    state = engine.state({"x": ((7,), chain.dtype)})
    with pytest.raises(ValueError, match="the inputs are too few"):
        chain.run(state, 4, stream.memory(chain), stream.lanes)


def test_devices_without_the_kernels(engine: Engine) -> None:
    assert not ConvChain.fits(engine)
    with pytest.raises(EngineError, match="'cpu' has no kernels for convolutions"):
        ConvChain(engine, "tf32")


def test_values_beyond_float16_are_cut_off(engine: Engine) -> None:
    layers = [
        ChainLayer(np.full((1, 8, 4), 3e4, np.float32), None),
        ChainLayer(np.full((1, 8, 8), 1e-3, np.float32), None),
    ]
    stream = make_stream(engine, layers, 1, 2)
    stream.x[:] = 1
    chain = build(engine, layers, "f16")
    found = stream.run(chain, stream.memory(chain), 0, 2)
    np.testing.assert_allclose(found, 8 * 65504 * 1e-3, rtol=1e-3)
