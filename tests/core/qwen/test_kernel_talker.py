"""The kernel of the talker, emulated on the CPU, against the programs of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.engine.engine import EXACT_VARIABLE, STOCK_VARIABLE
from ggtts.core.engine.talker_plan import TalkerPlan
from ggtts.core.errors import EngineError, ModelFileError
from ggtts.core.nn.config import Arithmetic
from ggtts.core.qwen.generation import Session, Utterance
from ggtts.core.qwen.kernel_talker import SCOPE, KernelTalker, talker_sizes
from ggtts.core.qwen.talker import Talker, TalkerSession
from ggtts.core.qwen.talker_batch import TalkerBatch
from ggtts.core.speech.timings import Stopwatch
from support.data import Golden, golden_names
from support.gguf_editing import edit_gguf
from support.qwen_parts import Parts, greedy_sampler, prompt_request

STATES = 1e-4
"""Largest deviation of a state or a logit: float32 sums in another order."""

HALF_STATES = 2e-2
"""The same where keys and values are float16, and round to a neighbour now and then."""

pytestmark = pytest.mark.cpu_only


@pytest.fixture(scope="module", params=["Qwen3-TTS-12Hz-0.6B-Base", "Qwen3-TTS-12Hz-1.7B-Base"])
def path(request: pytest.FixtureRequest, tiny_gguf: Callable[..., Path]) -> Path:
    return tiny_gguf(request.param)


@pytest.fixture(scope="module")
def model(engine: Engine, path: Path) -> Parts:
    return Parts.open(engine, path)


def open_kernel(engine: Engine, path: Path, model: Parts, blocks: int = 3, warps: int = 4) -> KernelTalker:
    return KernelTalker(
        TalkerPlan(
            engine.weights(path),
            SCOPE,
            talker_sizes(model.file),
            model.talker.config.rope_theta,
            emulated=(blocks, warps),
        )
    )


def with_kernel(engine: Engine, path: Path, model: Parts, kernel: KernelTalker) -> Talker:
    """Return the same talker, whose steps are the kernel's."""
    talker = Talker(engine.weights(path), model.file, engine)
    vars(talker)["_kernel"] = kernel
    return talker


def rows(model: Parts, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, model.file.talker.width)).astype(np.float32)


def both(
    engine: Engine, path: Path, model: Parts, kv_type: str, kernel: KernelTalker | None = None
) -> tuple[TalkerSession, TalkerSession]:
    """Sessions on the kernel and on programs."""
    kernel = kernel or open_kernel(engine, path, model)
    return with_kernel(engine, path, model, kernel).session(kv_type), model.talker.session(kv_type)


def compare(sessions: tuple[TalkerSession, TalkerSession], inputs: np.ndarray, tolerance: float) -> None:
    for row in inputs:
        found, expected = (session.decode(row) for session in sessions)
        np.testing.assert_allclose(found.hidden, expected.hidden, rtol=0, atol=tolerance)
        np.testing.assert_allclose(found.logits, expected.logits, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("kv_type", "tolerance"), [("f32", STATES), ("f16", HALF_STATES)])
def test_steps_after_a_prompt(
    engine: Engine, path: Path, model: Parts, kv_type: str, tolerance: float
) -> None:
    sessions = both(engine, path, model, kv_type)
    for session in sessions:
        session.prefill(rows(model, 9))
    compare(sessions, rows(model, 12, seed=1), tolerance)
    assert sessions[0].length == sessions[1].length == 21
    for layer in range(model.file.talker.layers):
        for name in (f"keys.{layer}", f"values.{layer}"):
            found, expected = (session._cache.state.read(name)[:, :21] for session in sessions)
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    for session in sessions:  # what one prompt left is in nobody's way
        session.prefill(rows(model, 3, seed=2))
    compare(sessions, rows(model, 2, seed=3), tolerance)


def test_prompts_see_what_the_kernel_has_kept(engine: Engine, path: Path, model: Parts) -> None:
    sessions = both(engine, path, model, "f32")
    for session in sessions:
        session.prefill(rows(model, 4))
    compare(sessions, rows(model, 3, seed=1), STATES)
    vars(sessions[0]._talker)["_kernel"] = None
    compare(sessions, rows(model, 3, seed=4), STATES)


def test_keys_of_many_blocks(engine: Engine, path: Path, model: Parts) -> None:
    sessions = both(engine, path, model, "f32", open_kernel(engine, path, model, blocks=21, warps=2))
    for session in sessions:
        session.prefill(rows(model, 300))
    compare(sessions, rows(model, 3, seed=1), STATES)


@pytest.mark.parametrize("outtype", ["q8_0", "f16", "bf16"])
def test_weight_types(engine: Engine, tiny_gguf: Callable[..., Path], tmp_path: Path, outtype: str) -> None:
    """The kernel keeps activations in float32, or as exactly: it equals float32 weights of the same values."""
    stored = tiny_gguf("Qwen3-TTS-12Hz-1.7B-Base", outtype)
    expanded = edit_gguf(
        stored,
        tmp_path / "expanded.gguf",
        change=lambda values: values,
        changed_types=("Q8_0", "F16", "BF16"),
    )
    assert engine.weights(stored).dtype("talker.blk.0.attn_q.weight") == outtype
    model = Parts.open(engine, expanded)
    of_type, of_floats = (
        with_kernel(engine, path, model, open_kernel(engine, path, model)).session("f32")
        for path in (stored, expanded)
    )
    compare((of_type, of_floats), rows(model, 5, seed=1), STATES)


@pytest.mark.parametrize("name", [*golden_names("qwen_0"), *golden_names("qwen_1")])
def test_greedy_codes_of_the_official_package(
    name: str, engine: Engine, tiny_gguf: Callable[..., Path], golden: Callable[[str], Golden]
) -> None:
    case = golden(name)
    path = tiny_gguf(case.meta["checkpoint"])
    model = Parts.open(engine, path)
    talker = with_kernel(engine, path, model, open_kernel(engine, path, model))
    utterance = Utterance(
        Session(talker.session("f32"), model.predictor.session("f32")),
        model.prompts.build(prompt_request(case, model.file)),
        greedy_sampler(model.file, case.meta["repetition_penalty"]),
        max_frames=case.meta["max_new_tokens"] - 1,
        stopwatch=Stopwatch(),
    )
    assert np.stack(list(utterance)).tolist() == case["codes"].tolist()


def test_blocks_and_warps_change_nothing(engine: Engine, path: Path, model: Parts) -> None:
    kernels = [open_kernel(engine, path, model, *shape) for shape in ((1, 1), (2, 3), (40, 16))]
    sessions = [with_kernel(engine, path, model, kernel).session("f32") for kernel in kernels]
    for row in rows(model, 4):
        first, *others = (session.decode(row) for session in sessions)
        for other in others:
            np.testing.assert_allclose(first.hidden, other.hidden, rtol=0, atol=1e-5)
            np.testing.assert_allclose(first.logits, other.logits, rtol=0, atol=1e-5)


def test_slots_of_a_batch(engine: Engine, path: Path, model: Parts) -> None:
    talker = with_kernel(engine, path, model, open_kernel(engine, path, model))
    batch, alone = TalkerBatch(talker, "f32"), [model.talker.session("f32") for _ in range(3)]
    slots = [batch.join() for _ in alone]
    for number, (slot, session) in enumerate(zip(slots, alone, strict=True)):
        for sequence in (lambda prompt, slot=slot: batch.prefill(slot, prompt), session.prefill):
            sequence(rows(model, 3 + number, seed=number))
    for chosen in ([2], [0, 2], [0, 1, 2], [1, 0], [2, 1]):
        inputs = rows(model, len(chosen), seed=sum(chosen))
        found = batch.decode([slots[number] for number in chosen], inputs)
        for number, row, step in zip(chosen, inputs, found, strict=True):
            expected = alone[number].decode(row)
            np.testing.assert_allclose(step.hidden, expected.hidden, rtol=0, atol=STATES)
            np.testing.assert_allclose(step.logits, expected.logits, rtol=0, atol=STATES)


def test_an_input_that_is_no_number(engine: Engine, path: Path, model: Parts) -> None:
    kernel = open_kernel(engine, path, model)
    session = with_kernel(engine, path, model, kernel).session("f32")
    row = rows(model, 1)[0]
    row[3] = np.nan
    assert np.isnan(session.decode(row).logits).all()


@pytest.mark.parametrize("position", [0, 3, 20])
def test_what_an_earlier_speech_has_left(engine: Engine, path: Path, model: Parts, position: int) -> None:
    """Behind the new position stands anything, also what is no number."""
    config, row = model.talker.config, rows(model, 1)[0]
    plan = TalkerPlan(engine.weights(path), SCOPE, talker_sizes(model.file), 1e4, emulated=(3, 4))
    names = [f"{part}.{layer}" for layer in range(config.layers) for part in ("keys", "values")]
    said = []
    for left in (0.0, np.nan):
        state = engine.state({name: ((config.head_dim, 32, config.kv_heads), "f32") for name in names})
        for name in names:
            kept = np.full((config.kv_heads, 32, config.head_dim), left, np.float32)
            kept[:, :position] = 0.25
            state.write(name, kept)
        said.append(plan.step(state, 0, position, row)[1])
    np.testing.assert_array_equal(*said)


def test_what_the_kernel_does_not_fit(engine: Engine, path: Path, model: Parts, tmp_path: Path) -> None:
    weights, sizes = engine.weights(path), talker_sizes(model.file)
    theta = model.talker.config.rope_theta
    assert model.talker.kernel is None  # no CUDA device
    assert Talker(weights, model.file, engine, Arithmetic(plain_attention=True)).kernel is None
    with pytest.raises(EngineError, match="runs on CUDA devices only, not on cpu"):
        TalkerPlan(weights, SCOPE, sizes, theta)
    odd = edit_gguf(
        path,
        tmp_path / "odd.gguf",
        rename=lambda name: name.replace("blk.1.ffn_norm.weight", "blk.1.ffn_scale"),
    )
    with pytest.raises(ValueError, match="does not know these weights"):
        TalkerPlan(engine.weights(odd), SCOPE, sizes, theta, emulated=(1, 1))
    with pytest.raises(ModelFileError, match="rows, not"):
        TalkerPlan(weights, SCOPE, type(sizes)(**{**vars(sizes), "vocabulary": 7}), theta, emulated=(1, 1))


def test_states_that_are_no_caches(engine: Engine, path: Path, model: Parts) -> None:
    sizes = talker_sizes(model.file)
    plan = TalkerPlan(engine.weights(path), SCOPE, sizes, 1e4, emulated=(1, 1))
    row = rows(model, 1)[0]
    state = model.talker.session("f32")._cache.state
    with pytest.raises(ValueError, match="position 1000000 is none of the cache"):
        plan.step(state, 0, 1000000, row)
    with pytest.raises(ValueError, match="is no cache with a slot 1"):
        plan.step(state, 1, 0, row)
    with pytest.raises(ValueError, match=f"a row must have {sizes.width} values"):
        plan.step(state, 0, 0, row[:-1])
    with pytest.raises(IndexError, match=r"no state 'keys\.0'"):
        plan.step(engine.state({"other": ((4,), "f32")}), 0, 0, row)


def test_an_exact_device_does_without(path: Path, model: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a position is computed alike alone and among others, which run as programs."""
    kernel = object()
    monkeypatch.setattr(KernelTalker, "open", lambda *arguments: kernel)
    monkeypatch.setenv(STOCK_VARIABLE, "1")
    for exact, expected in (("0", kernel), ("1", None)):
        monkeypatch.setenv(EXACT_VARIABLE, exact)
        engine = Engine("cpu", 1)
        assert Talker(engine.weights(path), model.file, engine).kernel is expected
