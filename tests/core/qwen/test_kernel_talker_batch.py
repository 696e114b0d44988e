"""The kernel of the talker for several utterances, emulated on the CPU."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.engine.talker_plan import TalkerPlan
from ggtts.core.errors import EngineError
from ggtts.core.formats.qwen import TransformerSizes
from ggtts.core.qwen.kernel_talker import SCOPE as TALKER_SCOPE
from ggtts.core.qwen.kernel_talker import KernelTalker, talker_sizes
from ggtts.core.qwen.talker import Talker
from ggtts.core.qwen.talker_batch import TalkerBatch
from support.qwen_parts import Parts
from support.random_talker import VOCABULARY, Caches, RandomTalker

TYPES = ["q8_0", "f16", "bf16"]

SHAPES = {
    "narrow": TransformerSizes(3, 64, 192, 4, 2, 32, 1e6, 1e-6),
    "uneven": TransformerSizes(2, 160, 224, 6, 2, 64, 1e4, 1e-6),  # three heads share a key head
    "large heads": TransformerSizes(2, 256, 224, 4, 2, 128, 1e6, 1e-6),
    "odd heads": TransformerSizes(1, 192, 96, 3, 1, 96, 1e6, 1e-6),
    "many tiles": TransformerSizes(
        1, 96, 4192, 2, 1, 32, 1e6, 1e-6
    ),  # three are left of gate and up, and cut
    "0.6b": TransformerSizes(1, 1024, 3072, 16, 8, 128, 1e6, 1e-6),
    "1.7b": TransformerSizes(1, 2048, 3072, 4, 2, 128, 1e6, 1e-6),
}

ACCURACY = 2e-6
"""Largest deviation of a state or a logit from float64, by the largest one."""

HALF_ACCURACY = 2e-4
"""The same where keys and values are float16, and those of the new position round to a neighbour now and then."""

STATES = 1e-4
"""Largest deviation of a state or a logit from those of one: float32 sums in another order."""

HALF_STATES = 2e-2
"""The same where keys and values are float16, and round to a neighbour now and then."""

PROGRAMS = 0.05
"""The same from GGML's operations, by the largest value: some round activations."""

BORDERS = [0, 1, 31, 32, 33, 63, 64, 100, 1023, 1024, 1025, 1100]
"""Positions before and behind the ends of chunks, and where chunks become larger."""

pytestmark = pytest.mark.cpu_only


@pytest.fixture(scope="module")
def random_talker(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], RandomTalker]:
    folder, made = tmp_path_factory.mktemp("talkers"), {}

    def make(shape: str, dtype: str) -> RandomTalker:
        if (shape, dtype) not in made:
            path = folder / f"{shape}-{dtype}.gguf"
            made[shape, dtype] = RandomTalker(path, SHAPES[shape], dtype)
        return made[shape, dtype]

    return make


def compare(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=ACCURACY * np.abs(expected).max())


def compare_with_float64(
    engine: Engine,
    talker: RandomTalker,
    positions: list[int],
    tolerance: float = ACCURACY,
    dtype: str = "f32",
) -> None:
    slots = list(range(len(positions)))[::-1]
    caches = talker.caches(len(slots), max(positions) + 2, dtype)
    rows = talker.rows(len(slots))
    state = talker.state(engine, caches, dtype)
    hidden, logits = talker.plan(engine).step_together(state, slots, positions, rows)
    for place, (slot, position) in enumerate(zip(slots, positions, strict=True)):
        expected = talker.step(caches, slot, position, rows[place])
        for found, wanted in zip((hidden[place], logits[place]), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", ["narrow", "uneven", "many tiles"])
def test_small_shapes(
    engine: Engine, random_talker: Callable[[str, str], RandomTalker], shape: str, dtype: str
) -> None:
    compare_with_float64(engine, random_talker(shape, dtype), BORDERS)


@pytest.mark.parametrize(
    ("shape", "dtype"), [("0.6b", "q8_0"), ("0.6b", "bf16"), ("1.7b", "q8_0"), ("1.7b", "f16")]
)
def test_shapes_of_the_models(
    engine: Engine, random_talker: Callable[[str, str], RandomTalker], shape: str, dtype: str
) -> None:
    compare_with_float64(engine, random_talker(shape, dtype), [0, 5, 40])


@pytest.mark.parametrize("shape", ["narrow", "uneven", "large heads", "odd heads"])
def test_float16_keys(engine: Engine, random_talker: Callable[[str, str], RandomTalker], shape: str) -> None:
    compare_with_float64(engine, random_talker(shape, "q8_0"), BORDERS, HALF_ACCURACY, "f16")


def run(
    engine: Engine, talker: RandomTalker, lanes: list[int], blocks: int = 5, caches: Caches | None = None
) -> dict[int, bytes]:
    """Return what is said to some lanes, lane n in slot n at position 3 n + 1, as bits."""
    caches = caches or talker.caches(80, 250, "f16")
    rows = talker.rows(80, seed=1)[lanes]
    state = talker.state(engine, caches, "f16")
    positions = [3 * lane + 1 for lane in lanes]
    hidden, logits = talker.plan(engine, blocks).step_together(state, lanes, positions, rows)
    kept = state.read("keys.1"), state.read("values.1")
    return {
        lane: b"".join(
            array.tobytes()
            for array in (hidden[place], logits[place], *(one[lane, :, 3 * lane + 1] for one in kept))
        )
        for place, lane in enumerate(lanes)
    }


def test_a_lane_does_not_depend_on_others(
    engine: Engine, random_talker: Callable[[str, str], RandomTalker]
) -> None:
    """Nor on its column, nor on how many are computed, or launches it takes, nor on the blocks of a card."""
    talker = random_talker("uneven", "q8_0")
    everybody = run(engine, talker, list(range(70)))
    for lanes, blocks in (([69], 1), ([3, 69], 5), ([69, 3, 20], 40), (list(range(69, 40, -1)), 3)):
        found = run(engine, talker, lanes, blocks)
        assert all(found[lane] == everybody[lane] for lane in lanes)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_spoils_its_lane_only(
    engine: Engine, random_talker: Callable[[str, str], RandomTalker], value: float
) -> None:
    talker = random_talker("uneven", "q8_0")
    lanes = list(range(9))
    fine = run(engine, talker, lanes)
    caches = talker.caches(80, 250, "f16")
    for layer in (*caches.keys, *caches.values):
        for lane in lanes:
            layer[lane, :, 3 * lane + 1 :] = value  # what an earlier speech has left
    assert run(engine, talker, lanes, caches=caches) == fine
    caches.values[0][4, 0, 3] = value
    found = run(engine, talker, lanes, caches=caches)
    assert [lane for lane in lanes if found[lane] != fine[lane]] == [4]


def test_inputs_that_are_no_numbers(
    engine: Engine, random_talker: Callable[[str, str], RandomTalker]
) -> None:
    """Nor do they spoil what is computed afterwards, with fewer columns in the same memory."""
    talker = random_talker("narrow", "q8_0")
    plan, caches = talker.plan(engine), talker.caches(40, 4)
    rows = talker.rows(40)
    slots = list(range(40))
    fine = plan.step_together(talker.state(engine, caches), slots, [2] * 40, rows)
    rows[1, 3], rows[38] = np.nan, np.inf
    found = plan.step_together(talker.state(engine, caches), slots, [2] * 40, rows)
    for one, other in zip(found, fine, strict=True):
        assert np.isnan(one[[1, 38]]).all()
        np.testing.assert_array_equal(np.delete(one, [1, 38], 0), np.delete(other, [1, 38], 0))
    few = plan.step_together(talker.state(engine, caches), slots[2:9], [2] * 7, rows[2:9])
    for one, other in zip(few, fine, strict=True):
        np.testing.assert_array_equal(one, other[2:9])


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e9])
def test_any_range_of_inputs(
    engine: Engine, random_talker: Callable[[str, str], RandomTalker], scale: float
) -> None:
    talker = random_talker("uneven", "bf16")
    caches, rows = talker.caches(3, 9), talker.rows(3) * np.float32(scale)
    hidden, _ = talker.plan(engine).step_together(talker.state(engine, caches), [0, 1, 2], [8, 1, 0], rows)
    for slot, position in enumerate((8, 1, 0)):
        compare(hidden[slot], talker.step(caches, slot, position, rows[slot])[0])


def with_kernel(engine: Engine, path: Path, model: Parts) -> Talker:
    """Return the same talker, whose steps are those of an emulated kernel."""
    talker = Talker(engine.weights(path), model.file, engine)
    sizes, theta = talker_sizes(model.file), talker.config.rope_theta
    plan = TalkerPlan(engine.weights(path), TALKER_SCOPE, sizes, theta, emulated=(3, 4))
    vars(talker)["_kernel"] = KernelTalker(plan)
    return talker


@pytest.mark.parametrize("name", ["Qwen3-TTS-12Hz-0.6B-Base", "Qwen3-TTS-12Hz-1.7B-Base"])
@pytest.mark.parametrize(("kv_type", "tolerance"), [("f32", STATES), ("f16", HALF_STATES)])
def test_utterances_that_come_and_go(
    engine: Engine, tiny_gguf: Callable[..., Path], name: str, kv_type: str, tolerance: float
) -> None:
    """What the kernel says to several is what that for one says to each."""
    path = tiny_gguf(name, "q8_0")
    model = Parts.open(engine, path)
    talker = with_kernel(engine, path, model)
    batch = TalkerBatch(talker, kv_type)
    random = np.random.default_rng(3)
    width = model.file.talker.width
    speakers = {}

    def rows(count: int) -> np.ndarray:
        return random.standard_normal((count, width)).astype(np.float32)

    def join(tokens: int) -> None:
        prompt = rows(tokens)
        slot, session = batch.join(), talker.session(kv_type)
        session.prefill(prompt)
        batch.prefill(slot, prompt)
        speakers[slot] = session

    def step(slots: list) -> None:
        inputs = rows(len(slots))
        logits, hidden = batch.decode_arrays(slots, inputs)
        for place, slot in enumerate(slots):
            expected = speakers[slot].decode(inputs[place])
            np.testing.assert_allclose(hidden[place], expected.hidden, rtol=0, atol=tolerance)
            np.testing.assert_allclose(logits[place], expected.logits, rtol=0, atol=tolerance)

    for tokens in (3, 5, 126):
        join(tokens)
    for _ in range(3):  # beyond 128 positions memory grows
        step(list(speakers))
    first, second, third = speakers
    step([third, first])
    batch.leave(first)
    del speakers[first]
    step([second, third])
    join(4)
    step(list(speakers)[::-1])


def test_programs_take_over(engine: Engine, tiny_gguf: Callable[..., Path]) -> None:
    """Steps of one, of several, and of programs work on the same keys and values."""
    path = tiny_gguf("Qwen3-TTS-12Hz-0.6B-Base", "bf16")
    model = Parts.open(engine, path)
    talker = with_kernel(engine, path, model)
    kernel, batch = talker.kernel, TalkerBatch(talker, "f32")
    sessions = [model.talker.session("f32") for _ in range(2)]
    slots = [batch.join() for _ in sessions]
    random = np.random.default_rng(0)
    rows = random.standard_normal((8, 2, model.file.talker.width)).astype(np.float32)
    for place, session in enumerate(sessions):
        session.prefill(rows[0, place : place + 1])
        batch.prefill(slots[place], rows[0, place : place + 1])
    for number, inputs in enumerate(rows[1:]):
        vars(talker)["_kernel"] = kernel if number % 3 else None
        chosen = [1] if number % 3 == 2 else [0, 1]
        logits, _ = batch.decode_arrays([slots[place] for place in chosen], inputs[chosen])
        for found, place in zip(logits, chosen, strict=True):
            expected = sessions[place].decode(inputs[place]).logits
            np.testing.assert_allclose(found, expected, rtol=0, atol=PROGRAMS * np.abs(expected).max())


def test_what_the_kernel_does_not_fit(
    engine: Engine, random_talker: Callable[[str, str], RandomTalker], tmp_path: Path
) -> None:
    sizes = TransformerSizes(1, 64, 64, 4, 2, 16, 1e4, 1e-6)
    for talker in (
        RandomTalker(tmp_path / "floats.gguf", SHAPES["narrow"], "f32"),
        RandomTalker(tmp_path / "heads.gguf", sizes, "q8_0"),
    ):
        plan = talker.plan(engine)
        assert not plan.prepare_together()
        with pytest.raises(ValueError, match="adds one position at a time here"):
            plan.step_together(talker.state(engine, talker.caches(1, 2)), [0], [0], talker.rows(1))
    assert random_talker("narrow", "q8_0").plan(engine).prepare_together()


def test_steps_that_do_not_fit(engine: Engine, random_talker: Callable[[str, str], RandomTalker]) -> None:
    talker = random_talker("narrow", "q8_0")
    plan, state, rows = talker.plan(engine), talker.state(engine, talker.caches(2, 3)), talker.rows(2)
    for slots, positions, message in (
        ([0, 2], [0, 0], "is no cache with a slot 2"),
        ([-1, 0], [0, 0], "is no cache with a slot -1"),
        ([0, 1], [0, 3], "position 3 is none of the cache"),
        ([0, 1], [-1, 0], "position -1 is none of the cache"),
        ([0], [0], "a slot, a position and a row of 64 values for each"),
    ):
        with pytest.raises(ValueError, match=message):
            plan.step_together(state, slots, positions, rows)
    hidden, logits = plan.step_together(state, [], [], rows[:0])
    assert hidden.shape == (0, 64)
    assert logits.shape == (0, VOCABULARY)


def test_without_memory_programs_go_on(caplog: pytest.LogCaptureFixture) -> None:
    class NoRoom:
        def prepare_together(self) -> bool:
            raise EngineError("no room for the talker's kernel")

    kernel = KernelTalker(NoRoom())  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        assert not kernel.takes_several
        assert not kernel.takes_several
    assert [record.getMessage() for record in caplog.records] == [
        "no room for the talker's kernel: several utterances go on without the kernel, and slower"
    ]
