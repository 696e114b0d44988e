"""The kernel of the code predictor on an NVIDIA card (`pytest --device cuda0`) against its emulation on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.engine.engine import EXACT_VARIABLE
from ggtts.core.engine.predictor_plan import PredictorPlan
from ggtts.core.formats.qwen import TalkerFile
from ggtts.core.qwen.frames import FrameSampler
from ggtts.core.qwen.kernel_predictor import SCOPE, frame_draw, predictor_sizes
from ggtts.core.sampling import Draws, SamplingOptions
from support.device import DEVICE
from support.steady_draws import steady_codes

LOGITS = 1e-4
"""Largest deviation of a logit."""

SEED = 11

CHAINS = [
    SamplingOptions(do_sample=False),
    SamplingOptions(temperature=0.9, top_k=50),
    SamplingOptions(temperature=1.3, top_p=0.8),
    SamplingOptions(temperature=0.7, top_k=20, top_p=0.6),
]

pytestmark = pytest.mark.skipif(not DEVICE.startswith("cuda"), reason="needs an NVIDIA card")


class Both:
    """The kernel on the device and its emulation, with random inputs."""

    def __init__(self, engine: Engine, path: Path) -> None:
        weights = engine.weights(path)
        if not PredictorPlan.fits(engine, weights, SCOPE):
            pytest.skip("built without GGTTS_CUDA")
        self.file = TalkerFile.from_metadata(weights.metadata, weights.path)
        sizes = predictor_sizes(self.file)
        self.kernel = PredictorPlan(engine, weights, SCOPE, sizes)
        self.emulation = PredictorPlan(Engine("cpu", 1), weights, SCOPE, sizes, emulated=(2, 4))

    def inputs(self, frames: int) -> np.ndarray:
        random = np.random.default_rng(frames)
        return random.standard_normal((frames, 2, self.file.talker.width)).astype(np.float32)


@pytest.fixture(scope="module")
def engine(usual_engine: Engine) -> Engine:
    return usual_engine


@pytest.fixture(scope="module", params=["0.6B", "1.7B"])
def name(request: pytest.FixtureRequest) -> str:
    return f"Qwen3-TTS-12Hz-{request.param}-Base"


@pytest.mark.parametrize("outtype", ["f32", "q8_0", "bf16", "f16"])
def test_frames(engine: Engine, tiny_gguf: Callable[..., Path], name: str, outtype: str) -> None:
    both = Both(engine, tiny_gguf(name, outtype))
    assert both.kernel.most_columns == (16 if outtype == "f32" else 64)
    for frames in (1, 2, 3, 7, 16, 19):
        samplers = [FrameSampler(both.file, chain, chain, seed=SEED) for chain in CHAINS]
        draws = [frame_draw(samplers[frame % len(CHAINS)].others(frame)) for frame in range(frames)]
        found, expected = (
            plan.expand(both.inputs(frames), draws, with_logits=True)
            for plan in (both.kernel, both.emulation)
        )
        for frame, logits in enumerate(expected.logits):
            # A draw at the boundary of two codes goes either way, and what follows with it.
            steady = steady_codes(
                logits, CHAINS[frame % len(CHAINS)], Draws(SEED, both.file.codebooks), frame
            )
            np.testing.assert_array_equal(found.codes[frame, :steady], expected.codes[frame, :steady])
            np.testing.assert_allclose(
                found.logits[frame, : steady + 1], logits[: steady + 1], rtol=0, atol=LOGITS
            )
            if steady == len(logits):
                np.testing.assert_allclose(found.sums[frame], expected.sums[frame], rtol=0, atol=1e-6)


# Up to four frames, and more of them on matrix units, are each added up in an order of their own.
@pytest.mark.parametrize(
    ("outtype", "count", "parts"),
    [("f32", 4, (1, 2)), ("f32", 16, (8,)), ("q8_0", 4, (1, 2)), ("q8_0", 64, (5, 8, 16, 33))],
)
def test_a_frame_does_not_depend_on_its_batch(
    engine: Engine,
    tiny_gguf: Callable[..., Path],
    name: str,
    outtype: str,
    count: int,
    parts: tuple[int, ...],
) -> None:
    unchanged_by_others(Both(engine, tiny_gguf(name, outtype)), count, parts)


@pytest.mark.parametrize("outtype", ["f32", "q8_0"])
def test_an_exact_device_has_one_order_for_all(
    tiny_gguf: Callable[..., Path], name: str, outtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EXACT_VARIABLE, "1")
    unchanged_by_others(Both(Engine(DEVICE, threads=1), tiny_gguf(name, outtype)), 16, (1, 2, 4, 8))


def unchanged_by_others(both: Both, count: int, parts: tuple[int, ...]) -> None:
    sampler = FrameSampler(both.file, CHAINS[1], CHAINS[1], seed=5)
    draws = [frame_draw(sampler.others(frame)) for frame in range(count)]
    inputs = both.inputs(count)
    together = both.kernel.expand(inputs, draws, with_logits=True)
    for fewer_frames in parts:
        fewer = both.kernel.expand(inputs[:fewer_frames], draws[:fewer_frames], with_logits=True)
        np.testing.assert_array_equal(fewer.logits, together.logits[:fewer_frames])
        np.testing.assert_array_equal(fewer.codes, together.codes[:fewer_frames])


def test_frames_repeat(engine: Engine, tiny_gguf: Callable[..., Path], name: str) -> None:
    """Blocks hear each other without barriers: whoever read too early or too late would differ now and then."""
    both = Both(engine, tiny_gguf(name))
    sampler = FrameSampler(both.file, CHAINS[1], CHAINS[1], seed=5)
    draws = [frame_draw(sampler.others(frame)) for frame in range(4)]
    for count in (1, 2, 4):
        expected = both.kernel.expand(both.inputs(4)[:count], draws[:count], with_logits=True)
        for _ in range(100):
            again = both.kernel.expand(both.inputs(4)[:count], draws[:count], with_logits=True)
            np.testing.assert_array_equal(again.logits, expected.logits)
            np.testing.assert_array_equal(again.sums, expected.sums)


def test_several_threads(engine: Engine, tiny_gguf: Callable[..., Path], name: str) -> None:
    both = Both(engine, tiny_gguf(name))
    draws = [frame_draw(FrameSampler(both.file, CHAINS[1], CHAINS[1], seed=5).others(0))]
    inputs = both.inputs(8)
    expected = [both.kernel.expand(inputs[index : index + 1], draws).codes.tolist() for index in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(
            lambda index: both.kernel.expand(inputs[index % 8][None], draws).codes.tolist(), range(80)
        )
        assert list(found) == expected * 10


def test_a_state_that_is_no_number(engine: Engine, tiny_gguf: Callable[..., Path], name: str) -> None:
    both = Both(engine, tiny_gguf(name))
    inputs = both.inputs(2)
    inputs[1, 0, 3] = np.nan
    sampler = FrameSampler(both.file, CHAINS[1], CHAINS[1], seed=5)
    found = both.kernel.expand(inputs, [frame_draw(sampler.others(frame)) for frame in range(2)])
    assert (found.codes[0] >= 0).all()
    assert (found.codes[1] == -1).all()
