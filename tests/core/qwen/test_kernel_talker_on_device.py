"""The kernel of the talker on an NVIDIA card (`pytest --device cuda0`) against its emulation on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.engine.talker_plan import TalkerPlan
from ggtts.core.qwen.kernel_talker import SCOPE, KernelTalker, talker_sizes
from ggtts.core.qwen.talker import Talker, TalkerSession
from support.device import DEVICE
from support.qwen_parts import Parts

STATES = 1e-4
"""Largest deviation of a state or a logit from the emulation: float32 sums in another order."""

HALF_STATES = 2e-2
"""The same where keys and values are float16, and round to a neighbour now and then."""

PROGRAMS = 0.05
"""The same from GGML's own operations, by the largest value: they round activations to eight bits, or to halves."""

pytestmark = pytest.mark.skipif(not DEVICE.startswith("cuda"), reason="needs an NVIDIA card")


class Both:
    """The kernel on the device and its emulation, with caches of their own."""

    def __init__(self, engine: Engine, path: Path) -> None:
        weights = engine.weights(path)
        self.model = Parts.open(engine, path)
        sizes, theta = talker_sizes(self.model.file), self.model.talker.config.rope_theta
        if not TalkerPlan.fits(weights, SCOPE, sizes):
            pytest.skip("built without GGTTS_CUDA")
        host = Engine("cpu", 1)
        self.kernel = TalkerPlan(weights, SCOPE, sizes, theta)
        self.emulation = TalkerPlan(host.weights(path), SCOPE, sizes, theta, emulated=(2, 4))
        self.engines = (engine, host)

    def states(self, positions: int, dtype: str) -> list:
        config = self.model.talker.config
        shape = (config.head_dim, positions, config.kv_heads)
        names = [f"{part}.{layer}" for layer in range(config.layers) for part in ("keys", "values")]
        return [engine.state({name: (shape, dtype) for name in names}) for engine in self.engines]

    def rows(self, count: int) -> np.ndarray:
        random = np.random.default_rng(count)
        return random.standard_normal((count, self.model.talker.config.width)).astype(np.float32)


@pytest.fixture(scope="module")
def engine(usual_engine: Engine) -> Engine:
    return usual_engine


@pytest.fixture(scope="module", params=["0.6B", "1.7B"])
def name(request: pytest.FixtureRequest) -> str:
    return f"Qwen3-TTS-12Hz-{request.param}-Base"


@pytest.mark.parametrize("outtype", ["f32", "q8_0", "bf16", "f16"])
@pytest.mark.parametrize(("kv_type", "tolerance"), [("f32", STATES), ("f16", HALF_STATES)])
def test_steps(
    engine: Engine,
    tiny_gguf: Callable[..., Path],
    name: str,
    outtype: str,
    kv_type: str,
    tolerance: float,
) -> None:
    both = Both(engine, tiny_gguf(name, outtype))
    states = both.states(32, kv_type)
    for position, row in enumerate(both.rows(24)):
        found, expected = (
            plan.step(state, 0, position, row)
            for plan, state in zip((both.kernel, both.emulation), states, strict=True)
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


@pytest.mark.parametrize("positions", [255, 256, 257, 511, 2000])
def test_many_keys(engine: Engine, tiny_gguf: Callable[..., Path], name: str, positions: int) -> None:
    both = Both(engine, tiny_gguf(name))
    states = both.states(positions + 1, "f32")
    random = np.random.default_rng(0)
    for key in states[0].names:
        values = random.standard_normal(states[1].read(key).shape).astype(np.float32)
        for state in states:
            state.write(key, values)
    row = both.rows(1)[0]
    found, expected = (
        plan.step(state, 0, positions, row)
        for plan, state in zip((both.kernel, both.emulation), states, strict=True)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=STATES)


@pytest.mark.parametrize("outtype", ["f32", "q8_0", "f16"])
def test_sessions_with_and_without(
    engine: Engine, tiny_gguf: Callable[..., Path], name: str, outtype: str
) -> None:
    """Prompts and steps of programs see what the kernel has kept, and the other way round."""
    both = Both(engine, tiny_gguf(name, outtype))
    file = both.model.file
    plain = Talker(engine.weights(tiny_gguf(name, outtype)), file, engine)
    vars(plain)["_kernel"] = None
    sessions: list[TalkerSession] = [both.model.talker.session("f32"), plain.session("f32")]
    assert isinstance(both.model.talker.kernel, KernelTalker)
    prompt = both.rows(9)
    steps = [session.prefill(prompt) for session in sessions]
    for row in both.rows(12):
        for found, expected in ((steps[0].hidden, steps[1].hidden), (steps[0].logits, steps[1].logits)):
            np.testing.assert_allclose(found, expected, rtol=0, atol=PROGRAMS * np.abs(expected).max())
        steps = [session.decode(row) for session in sessions]


def test_several_threads(engine: Engine, tiny_gguf: Callable[..., Path], name: str) -> None:
    both = Both(engine, tiny_gguf(name))
    row = both.rows(1)[0]
    states = [both.states(8, "f16")[0] for _ in range(4)]
    expected = both.kernel.step(states[0], 0, 0, row)[1].tolist()
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda turn: both.kernel.step(states[turn % 4], 0, 0, row)[1].tolist(), range(200))
        assert all(logits == expected for logits in found)


def test_an_input_that_is_no_number(engine: Engine, tiny_gguf: Callable[..., Path], name: str) -> None:
    both = Both(engine, tiny_gguf(name))
    row = both.rows(1)[0]
    row[3] = np.nan
    assert np.isnan(both.kernel.step(both.states(8, "f16")[0], 0, 0, row)[1]).all()
