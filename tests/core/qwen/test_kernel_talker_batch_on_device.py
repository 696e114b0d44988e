"""The kernel of the talker for several utterances on an NVIDIA card (`pytest --device cuda0`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.engine.talker_plan import TalkerPlan
from ggtts.core.formats.qwen import TransformerSizes
from ggtts.core.qwen.talker_batch import TalkerBatch
from support.device import DEVICE
from support.qwen_parts import Parts
from support.random_talker import RandomTalker

SHAPES = {
    "narrow": TransformerSizes(3, 64, 192, 4, 2, 32, 1e6, 1e-6),
    "uneven": TransformerSizes(2, 160, 224, 6, 2, 64, 1e4, 1e-6),
    "0.6b": TransformerSizes(2, 1024, 3072, 16, 8, 128, 1e6, 1e-6),
    "1.7b": TransformerSizes(1, 2048, 6144, 16, 8, 128, 1e6, 1e-6),
}

ACCURACY = 4e-6
"""Largest deviation of a state or a logit from float64, by the largest one."""

HALF_ACCURACY = 2e-4
"""The same where keys and values are float16, and round to a neighbour now and then."""

PROGRAMS = 0.05
"""The same from GGML's operations, which round activations to eight bits, or to halves."""

POSITIONS = [0, 1, 31, 32, 33, 63, 64, 100, 1023, 1024, 1025, 1100]

pytestmark = pytest.mark.skipif(not DEVICE.startswith("cuda"), reason="needs an NVIDIA card")


@pytest.fixture(scope="module")
def engine(usual_engine: Engine) -> Engine:
    return usual_engine


def open_plan(engine: Engine, talker: RandomTalker) -> TalkerPlan:
    plan = talker.plan(engine, None)
    if not plan.prepare_together():
        pytest.skip("this card is too old for the kernel")
    return plan


@pytest.mark.parametrize("dtype", ["q8_0", "f16", "bf16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kv_type", "tolerance"), [("f32", ACCURACY), ("f16", HALF_ACCURACY)])
def test_steps_against_float64(
    engine: Engine, tmp_path: Path, shape: str, dtype: str, kv_type: str, tolerance: float
) -> None:
    talker = RandomTalker(tmp_path / "random.gguf", SHAPES[shape], dtype)
    plan = open_plan(engine, talker)
    slots = list(range(len(POSITIONS)))[::-1]
    caches = talker.caches(len(slots), max(POSITIONS) + 1, kv_type)
    rows = talker.rows(len(slots))
    hidden, logits = plan.step_together(talker.state(engine, caches, kv_type), slots, POSITIONS, rows)
    for place, (slot, position) in enumerate(zip(slots, POSITIONS, strict=True)):
        expected = talker.step(caches, slot, position, rows[place])
        for found, wanted in zip((hidden[place], logits[place]), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize("kv_type", ["f32", "f16"])
def test_bits_repeat_and_do_not_depend_on_others(engine: Engine, tmp_path: Path, kv_type: str) -> None:
    talker = RandomTalker(tmp_path / "random.gguf", SHAPES["0.6b"], "q8_0")
    plan = open_plan(engine, talker)
    caches, rows = talker.caches(70, 400, kv_type), talker.rows(70)
    state = talker.state(engine, caches, kv_type)

    def said(lanes: list[int]) -> list[bytes]:
        _, logits = plan.step_together(state, lanes, [5 * lane for lane in lanes], rows[lanes])
        return [row.tobytes() for row in logits]

    everybody = said(list(range(70)))
    for _ in range(50):
        assert said(list(range(70))) == everybody
    for lanes in ([69], [3, 68], [60, 2, 61, 0, 9], list(range(40, 10, -1))):
        assert said(lanes) == [everybody[lane] for lane in lanes]
    rows[7, 3] = np.nan
    found = said(list(range(70)))
    assert [lane for lane in range(70) if found[lane] != everybody[lane]] == [7]


@pytest.mark.parametrize("outtype", ["q8_0", "f16"])
def test_batches_with_and_without(engine: Engine, tiny_gguf: Callable[..., Path], outtype: str) -> None:
    """Prompts and steps of programs see what the kernel has kept, and the other way round."""
    path = tiny_gguf("Qwen3-TTS-12Hz-0.6B-Base", outtype)
    talkers = [Parts.open(engine, path).talker for _ in range(2)]
    kernel = talkers[0].kernel
    if kernel is None or not kernel.takes_several:
        pytest.skip("no kernel for several here")
    vars(talkers[1])["_kernel"] = None
    batches = [TalkerBatch(talker, "f16") for talker in talkers]
    random = np.random.default_rng(1)
    rows = random.standard_normal((20, 5, talkers[0].config.width)).astype(np.float32)
    slots = [[batch.join() for _ in range(5)] for batch in batches]
    for batch, own in zip(batches, slots, strict=True):
        for place, slot in enumerate(own):
            batch.prefill(slot, rows[0, place : place + 1])
    for number, inputs in enumerate(rows[1:]):
        vars(talkers[0])["_kernel"] = None if number % 4 == 3 else kernel
        chosen = [place for place in range(5) if (place + number) % 3]
        found, expected = (
            batch.decode_arrays([own[place] for place in chosen], inputs[chosen])
            for batch, own in zip(batches, slots, strict=True)
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=PROGRAMS * np.abs(other).max())
