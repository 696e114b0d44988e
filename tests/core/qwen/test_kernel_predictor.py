"""The kernel of the code predictor, emulated on the CPU, against the programs of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ggtts import _native
from ggtts.core.engine import Engine, Weights
from ggtts.core.engine.predictor_plan import ComputedFrames, FrameDraw, PredictorPlan
from ggtts.core.errors import EngineError
from ggtts.core.nn.config import USUAL, Arithmetic
from ggtts.core.qwen import kernel_predictor
from ggtts.core.qwen.choices import Choose, SampledChoice
from ggtts.core.qwen.code_predictor import CodePredictor, CodePredictorSession
from ggtts.core.qwen.code_predictor_batch import CodePredictorBatch
from ggtts.core.qwen.expanded_frame import ExpandedFrame
from ggtts.core.qwen.frames import FrameSampler
from ggtts.core.qwen.kernel_predictor import (
    SCOPE,
    KernelBatch,
    KernelPredictor,
    KernelSession,
    frame_draw,
    predictor_sizes,
)
from ggtts.core.sampling import SamplingOptions
from support.gguf_editing import edit_gguf
from support.qwen_parts import Parts

LOGITS = 1e-4
"""Largest deviation of a logit."""

FIRSTS = [5, 9, 11, 2, 60]

CHAINS = {
    "greedy": SamplingOptions(do_sample=False),
    "top-k": SamplingOptions(temperature=0.9, top_k=50),
    "top-p": SamplingOptions(temperature=1.3, top_p=0.8),
    "both": SamplingOptions(temperature=0.7, top_k=20, top_p=0.6),
}

pytestmark = pytest.mark.cpu_only


@pytest.fixture(scope="module", params=["Qwen3-TTS-12Hz-0.6B-Base", "Qwen3-TTS-12Hz-1.7B-Base"])
def path(request: pytest.FixtureRequest, tiny_gguf: Callable[..., Path]) -> Path:
    """A talker: as wide as its predictor, and one with a projection between them."""
    return tiny_gguf(request.param)


@pytest.fixture(scope="module")
def model(engine: Engine, path: Path) -> Parts:
    return Parts.open(engine, path)


def open_plan(engine: Engine, path: Path, model: Parts, blocks: int = 3, warps: int = 4) -> PredictorPlan:
    return PredictorPlan(
        engine, engine.weights(path), SCOPE, predictor_sizes(model.file), emulated=(blocks, warps)
    )


@pytest.fixture(scope="module")
def plan(engine: Engine, path: Path, model: Parts) -> PredictorPlan:
    return open_plan(engine, path, model)


def hidden_states(model: Parts) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((len(FIRSTS), model.file.talker.width)).astype(np.float32)


def choices(model: Parts, options: SamplingOptions) -> list[SampledChoice]:
    sampler = FrameSampler(model.file, options, options, seed=7)
    return [sampler.others(frame) for frame in range(len(FIRSTS))]


def run(plan: PredictorPlan, model: Parts, draws: Sequence[SampledChoice]) -> ComputedFrames:
    inputs = np.stack([hidden_states(model), model.embeddings.rows(np.array(FIRSTS, np.int32))], axis=1)
    return plan.expand(inputs[: len(draws)], [frame_draw(choice) for choice in draws], with_logits=True)


def noting(choose: Choose, logits: list[np.ndarray]) -> Choose:
    def chosen(found: np.ndarray, codebook: int) -> int:
        logits.append(found.copy())
        return choose(found, codebook)

    return chosen


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("chain", CHAINS)
def test_frames(plan: PredictorPlan, model: Parts, chain: str, count: int) -> None:
    draws = choices(model, CHAINS[chain])[:count]
    found = run(plan, model, draws)
    session = CodePredictorSession(model.predictor, "f32")
    for index, (hidden, first, choice) in enumerate(zip(hidden_states(model), FIRSTS, draws, strict=False)):
        logits: list[np.ndarray] = []
        expected = session.expand(hidden, first, noting(choice, logits))
        np.testing.assert_allclose(found.logits[index], np.stack(logits), rtol=0, atol=LOGITS)
        assert found.codes[index].tolist() == expected.codes[1:].tolist()
        np.testing.assert_array_equal(found.sums[index], expected.embedding)


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("outtype", ["q8_0", "f16", "bf16"])
def test_weight_types(
    engine: Engine, tiny_gguf: Callable[..., Path], tmp_path: Path, outtype: str, count: int
) -> None:
    """The kernel keeps activations in float32: it equals float32 weights of the same values."""
    stored = tiny_gguf("Qwen3-TTS-12Hz-1.7B-Base", outtype)
    expanded = edit_gguf(
        stored,
        tmp_path / "expanded.gguf",
        change=lambda values: values,
        changed_types=("Q8_0", "F16", "BF16"),
    )
    model = Parts.open(engine, stored)
    assert engine.weights(stored).dtype("code_pred.blk.0.attn_q.weight") == outtype
    draws = choices(model, CHAINS["top-k"])[:count]
    found = run(open_plan(engine, stored, model), model, draws)
    same = run(open_plan(engine, expanded, model), model, draws)
    assert found.codes.tolist() == same.codes.tolist()
    np.testing.assert_allclose(found.logits, same.logits, rtol=0, atol=LOGITS)


def test_results_do_not_depend_on_the_batch(
    engine: Engine, path: Path, model: Parts, plan: PredictorPlan
) -> None:
    """Frames for few columns are added up in one order, those of many columns in another."""
    draws = choices(model, CHAINS["top-k"])
    for other in (plan, open_plan(engine, path, model, blocks=1, warps=1)):
        together = run(plan, model, draws[:4])
        for count in (1, 2, 3):
            fewer = run(other, model, draws[:count])
            np.testing.assert_array_equal(fewer.codes, together.codes[:count])
            np.testing.assert_array_equal(fewer.logits, together.logits[:count])
            np.testing.assert_array_equal(fewer.sums, together.sums[:count])


@pytest.fixture(scope="module", params=["Qwen3-TTS-12Hz-0.6B-Base", "Qwen3-TTS-12Hz-1.7B-Base"])
def eight_bits(request: pytest.FixtureRequest, tiny_gguf: Callable[..., Path]) -> Path:
    """A talker whose predictor multiplies five columns and more on matrix units."""
    return tiny_gguf(request.param, "q8_0")


def eight_bit_plan(engine: Engine, path: Path, blocks: int = 3) -> PredictorPlan:
    return open_plan(engine, path, Parts.open(engine, path), blocks, warps=8)


def many_draws(engine: Engine, path: Path, count: int) -> tuple[np.ndarray, list[FrameDraw]]:
    model = Parts.open(engine, path)
    width = model.file.talker.width
    inputs = np.random.default_rng(1).standard_normal((count, 2, width)).astype(np.float32)
    samplers = [FrameSampler(model.file, chain, chain, seed=3) for chain in CHAINS.values()]
    return inputs, [frame_draw(samplers[frame % len(samplers)].others(frame)) for frame in range(count)]


def test_many_frames_do_not_depend_on_the_batch(engine: Engine, eight_bits: Path) -> None:
    """From five frames on matrix units multiply, and a frame's bits are the same in any such batch.

    The first two positions of up to sixteen frames are computed as one, those of seventeen one after the other.
    """
    plan = eight_bit_plan(engine, eight_bits)
    inputs, draws = many_draws(engine, eight_bits, 17)
    together = plan.expand(inputs, draws, with_logits=True)
    for count, other in ((5, plan), (8, eight_bit_plan(engine, eight_bits, blocks=40))):
        fewer = other.expand(inputs[:count], draws[:count], with_logits=True)
        np.testing.assert_array_equal(fewer.logits, together.logits[:count])
        np.testing.assert_array_equal(fewer.codes, together.codes[:count])
        np.testing.assert_array_equal(fewer.sums, together.sums[:count])


def test_more_frames_than_matrix_units_take(engine: Engine, tiny_gguf: Callable[..., Path]) -> None:
    path = tiny_gguf("Qwen3-TTS-12Hz-1.7B-Base", "q8_0")
    plan = eight_bit_plan(engine, path)
    count = plan.most_columns + 2
    assert count == 66
    inputs, draws = many_draws(engine, path, count)
    codes = plan.expand(inputs, draws).codes
    for frames in (slice(0, 5), slice(59, 64), slice(64, 66)):
        assert plan.expand(inputs[frames], draws[frames]).codes.tolist() == codes[frames].tolist()


def test_both_kernels_agree(engine: Engine, eight_bits: Path) -> None:
    plan = eight_bit_plan(engine, eight_bits)
    inputs, draws = many_draws(engine, eight_bits, 9)
    together = plan.expand(inputs, draws, with_logits=True)
    for index in range(9):
        alone = plan.expand(inputs[index : index + 1], draws[index : index + 1], with_logits=True)
        assert alone.codes.tolist() == together.codes[index : index + 1].tolist()
        np.testing.assert_allclose(alone.logits[0], together.logits[index], rtol=0, atol=LOGITS)
        np.testing.assert_array_equal(alone.sums[0], together.sums[index])


def test_exact_engines_have_one_kernel(engine: Engine, eight_bits: Path) -> None:
    exact = Engine("cpu", 1)
    exact.backend = _native.Backend("cpu", 1, exact=True)
    plan = eight_bit_plan(exact, eight_bits)
    assert plan.most_columns == 16
    inputs, draws = many_draws(engine, eight_bits, 6)
    together = plan.expand(inputs, draws, with_logits=True)
    alone = plan.expand(inputs[5:], draws[5:], with_logits=True)
    np.testing.assert_array_equal(alone.logits[0], together.logits[5])


def test_many_frames_one_of_which_is_no_number(engine: Engine, eight_bits: Path) -> None:
    inputs, draws = many_draws(engine, eight_bits, 8)
    inputs[6, 0, 2] = np.nan
    codes = eight_bit_plan(engine, eight_bits).expand(inputs, draws).codes
    assert (codes[6] == -1).all()
    assert (np.delete(codes, 6, axis=0) >= 0).all()


def test_more_frames_than_the_kernel_takes(plan: PredictorPlan, model: Parts) -> None:
    count = plan.most_columns + 3
    width = model.file.talker.width
    inputs = np.random.default_rng(1).standard_normal((count, 2, width)).astype(np.float32)
    draws = [frame_draw(choices(model, CHAINS["top-k"])[0])] * count
    found = plan.expand(inputs, draws)
    assert found.codes.shape == (count, model.file.codebooks - 1)
    assert len(found.logits) == 0
    for index in (0, plan.most_columns, count - 1):
        alone = plan.expand(inputs[index : index + 1], draws[:1])
        np.testing.assert_array_equal(alone.codes[0], found.codes[index])
        np.testing.assert_array_equal(alone.sums[0], found.sums[index])
    assert len(plan.expand(inputs[:0], []).codes) == 0


def test_kernel_takes_the_place_of_programs(plan: PredictorPlan, model: Parts) -> None:
    kernel = KernelPredictor(plan, model.embeddings)
    batch = KernelBatch(kernel, lambda: pytest.fail("no programs are needed"))
    programs = CodePredictorBatch(model.predictor, "f32", len(FIRSTS))
    draws = choices(model, CHAINS["top-k"])
    hidden = hidden_states(model)
    found, expected = (which.expand(hidden, FIRSTS, draws) for which in (batch, programs))
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, ExpandedFrame)
        assert isinstance(other, ExpandedFrame)
        assert one.codes.dtype == np.int32
        assert one.codes.tolist() == other.codes.tolist()
        np.testing.assert_array_equal(one.embedding, other.embedding)
    single = KernelSession(kernel, lambda: pytest.fail("no programs are needed")).expand(
        hidden[1], 9, draws[1]
    )
    np.testing.assert_array_equal(single.codes, expected[1].codes)  # type: ignore[union-attr]


def test_other_choices_run_as_programs(plan: PredictorPlan, model: Parts) -> None:
    kernel = KernelPredictor(plan, model.embeddings)
    batch = KernelBatch(kernel, lambda: CodePredictorBatch(model.predictor, "f32", 2))
    session = KernelSession(kernel, lambda: CodePredictorSession(model.predictor, "f32"))
    hidden = hidden_states(model)
    penalised = choices(model, SamplingOptions(temperature=0.9, repetition_penalty=1.3))
    given = np.arange(model.file.codebooks)

    def forced(_: np.ndarray, codebook: int) -> int:
        return int(given[codebook])

    frames = batch.expand(hidden[:2], [0, 0], [forced, penalised[1]])
    assert isinstance(frames[0], ExpandedFrame)
    assert frames[0].codes.tolist() == given.tolist()
    assert session.expand(hidden[0], 0, forced).codes.tolist() == given.tolist()
    assert len(session.trace(hidden[0], given.astype(np.int32))["logits"]) == model.file.codebooks - 1


def test_a_state_that_is_no_number(plan: PredictorPlan, model: Parts) -> None:
    kernel = KernelPredictor(plan, model.embeddings)
    hidden = hidden_states(model)[:2].copy()
    hidden[1, 3] = np.nan
    fine, astray = kernel.expand(hidden, FIRSTS[:2], choices(model, CHAINS["greedy"])[:2])
    assert isinstance(fine, ExpandedFrame)
    assert isinstance(astray, EngineError)
    assert str(astray).startswith("the model went astray at frame 1, codebook 1: ")


@pytest.mark.parametrize(
    ("arithmetic", "kernels"),
    [(USUAL, 1), (Arithmetic(plain_attention=True), 0), (Arithmetic(clamp_float16=True), 0)],
)
def test_other_ways_of_computing_run_as_programs(
    engine: Engine,
    path: Path,
    model: Parts,
    monkeypatch: pytest.MonkeyPatch,
    arithmetic: Arithmetic,
    kernels: int,
) -> None:
    opened: list[object] = []
    monkeypatch.setattr(KernelPredictor, "open", lambda *arguments: opened.append(arguments))
    weights = engine.weights(path)
    assert CodePredictor(weights, model.file, model.embeddings, engine, arithmetic).kernel is None
    assert len(opened) == kernels


def test_what_the_kernel_does_not_fit(
    engine: Engine, tiny_gguf: Callable[..., Path], path: Path, model: Parts, tmp_path: Path
) -> None:
    weights = engine.weights(path)
    assert KernelPredictor.open(engine, weights, model.file, model.embeddings) is None  # no CUDA device
    with pytest.raises(EngineError, match="runs on CUDA devices only, not on cpu"):
        PredictorPlan(engine, weights, SCOPE, predictor_sizes(model.file))
    odd = edit_gguf(
        path, tmp_path / "odd.gguf", rename=lambda name: name.replace("blk.1.ffn_norm", "blk.1.ffn_scale")
    )
    with pytest.raises(ValueError, match="does not know these weights"):
        open_plan(engine, odd, model)


@pytest.mark.parametrize("has_room", [True, False])
def test_memory_goes_first_to_what_nothing_replaces(
    engine: Engine,
    path: Path,
    model: Parts,
    has_room: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Programs do for the predictor what its kernel would; there is nothing else than the talker's weights."""
    asked: list[str] = []

    def place(weights: Weights) -> None:
        asked.append("weights")
        if not has_room:
            raise EngineError("no room for the weights")

    def plan(*arguments: object) -> PredictorPlan:
        asked.append("kernel")
        raise EngineError("no room for the kernel")

    plan.fits = lambda *arguments: True  # type: ignore[attr-defined]
    monkeypatch.setattr(Weights, "place", place)
    monkeypatch.setattr(kernel_predictor, "PredictorPlan", plan)
    arguments = engine, engine.weights(path), model.file, model.embeddings
    if not has_room:
        with pytest.raises(EngineError, match="the weights"):
            KernelPredictor.open(*arguments)
        assert (asked, caplog.messages) == (["weights"], [])
        return
    assert KernelPredictor.open(*arguments) is None
    assert asked == ["weights", "kernel"]
    assert caplog.messages == [
        "no room for the kernel: the code predictor goes on without its kernel, and slower"
    ]
