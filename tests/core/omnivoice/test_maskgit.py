"""MaskGIT against the official package: schedules, codes after every step, sampled runs, and the options."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from ggtts.core.errors import UsageError
from ggtts.core.omnivoice import maskgit, scoring
from ggtts.core.omnivoice.maskgit import (
    MaskGit,
    MaskGitOptions,
    Progress,
    choose,
    draw_codes,
    schedule,
    time_steps,
)
from ggtts.core.omnivoice.noise import PhiloxNoise
from ggtts.core.omnivoice.prompt import PromptReference, build_prompt
from ggtts.core.omnivoice.scoring import Guess, Step, StepShape
from support.comparing import deviation
from support.data import Golden, golden_json
from support.omnivoice_parts import EAGER, SPEECH_CASES, OmniParts, RecordedNoise, case_options, speech_case
from support.tolerances import ACTIVATION, GUIDED_MARGIN

GREEDY = MaskGitOptions(steps=4, position_temperature=0)
GREEDY_CASES = [name for name in SPEECH_CASES if "sampled" not in name]
SAMPLED_CASES = [name for name in SPEECH_CASES if "sampled" in name]


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Golden:
    return speech_case(request.param)


def run(omni: OmniParts, case: Golden, noise: RecordedNoise | int = 0) -> list[Progress]:
    """Generate a case and return what was reported."""
    steps: list[Progress] = []
    frames = case.meta["target_len"]
    codes = omni.maskgit.generate(omni.prompt(case), frames, case_options(case), noise, steps.append)
    assert codes.dtype == np.int32
    assert codes.shape == (frames, omni.file.codebooks)
    assert (codes == steps[-1].codes).all()
    return steps


@pytest.mark.parametrize("case", GREEDY_CASES, indirect=True)
def test_codes_after_every_step(case: Golden, omni: OmniParts) -> None:
    steps = run(omni, case)
    assert [step.fixed for step in steps] == [count for count in case["schedule"] if count]
    first = steps[0].guess
    assert (first.places == np.arange(steps[0].codes.size)).all()
    assert (first.codes == case["pred_tokens0"].reshape(-1)).all()
    assert deviation(first.scores, case["confidence0"].reshape(-1)) < ACTIVATION
    certain = np.logical_and.accumulate(case["step_margins"].min(1) > GUIDED_MARGIN)
    assert certain.all() or case.name == "omnivoice_design_en"
    for step in steps:
        if certain[step.step]:
            assert (case["tokens_after_step"][step.step] == step.codes.T).all(), step.step


@pytest.mark.parametrize("case", SAMPLED_CASES, indirect=True)
def test_sampled_codes(case: Golden, omni: OmniParts) -> None:
    """With the random numbers of the official run."""
    noise = RecordedNoise.of(case)
    steps = run(omni, case, noise)
    for step in steps:
        assert (case["tokens_after_step"][step.step] == step.codes.T).all(), step.step
    assert noise.left == 0


def test_near_tie_is_the_only_difference(omni: OmniParts) -> None:
    """The steps behind the near tie, each from the official state."""
    case = speech_case("omnivoice_design_en")
    options, frames = case_options(case), case.meta["target_len"]
    prompt = omni.prompt(case)
    step = Step(omni.backbone, StepShape(prompt.length, frames)).prompted(omni.backbone.prompt_rows(prompt))
    after = case["tokens_after_step"].astype(np.int32)
    for index in range(2, options.steps):
        guess = step.guess(after[index - 1].T, options.guidance)
        count = int(case["schedule"][index])
        codes = choose(after[index - 1].T, guess, count, options, RecordedNoise([]))
        assert (after[index] == codes.T).all(), index


@pytest.mark.parametrize("name", ["chunked_auto", "chunked_auto_eager", "chunked_clone_zh"])
def test_later_chunks(name: str, omni: OmniParts) -> None:
    """Without a reference the first chunk becomes that of all others."""
    case = speech_case(f"omnivoice_{name}")
    first = PromptReference(case["chunk0_tokens"].T, case.meta["chunks"][0])
    reference = None if "ref_codes" in case else first
    for chunk, frames in enumerate(case.meta["chunk_lens"]):
        if chunk == 0 and reference:
            continue
        prompt = omni.prompt(case, chunk, reference)
        codes = omni.maskgit.generate(prompt, frames, case_options(case))
        assert (case[f"chunk{chunk}_tokens"] == codes.T).all(), chunk


def test_of_equal_scores_the_first_places_are_filled() -> None:
    masked = np.full((50, 8), 64, np.int32)
    scores = np.resize(np.array([0, -1, -2], np.float32), masked.size)
    options = MaskGitOptions(layer_penalty=0.0, position_temperature=0.0)
    guess = Guess(np.arange(masked.size), np.ones(masked.size, np.int32), scores)
    filled = choose(masked, guess, 200, options, RecordedNoise([])).T.reshape(-1)
    best, second = (np.flatnonzero(scores == score) for score in (0, -1))
    expected = np.concatenate([best, second[: 200 - len(best)]])
    assert (np.flatnonzero(filled == 1) == np.sort(expected)).all()


def test_schedules() -> None:
    table = golden_json("omnivoice_text")
    for row in table["schedule"]:
        assert schedule(row["T"] * 8, row["num_step"], row["t_shift"]) == row["counts"]
    assert time_steps(32, 0.1) == table["timesteps_32_0.1"]


def test_schedule_is_computed_in_float64() -> None:
    """Differences taken in float32 would give other counts here."""
    times = np.array(time_steps(12, 0.1), np.float32)
    rounded = [math.ceil(np.float32(8 * 111) * step) for step in np.diff(times)]
    counts = schedule(8 * 111, 12, 0.1)
    assert counts[:-1] != rounded[:-1]
    assert sum(counts) == 8 * 111


def test_more_steps_than_codes(omni: OmniParts) -> None:
    """Steps that fix nothing are not run."""
    steps: list[Progress] = []
    prompt = build_prompt(omni.tokenizer, "hi")
    codes = omni.maskgit.generate(prompt, 1, MaskGitOptions(), 3, steps.append)
    assert [step.fixed for step in steps] == [1] * 8
    assert (codes < omni.file.mask_code).all()


def test_seed(omni: OmniParts) -> None:
    prompt, options = build_prompt(omni.tokenizer, "hi there"), MaskGitOptions(steps=4, class_temperature=0.8)
    runs = [omni.maskgit.generate(prompt, 9, options, seed) for seed in (7, 7, 8)]
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()


def test_greedy_runs_use_no_random_numbers(omni: OmniParts) -> None:
    assert GREEDY.greedy
    omni.maskgit.generate(build_prompt(omni.tokenizer, "hi"), 4, GREEDY, RecordedNoise([]))


def test_noise_goes_on_from_call_to_call(omni: OmniParts) -> None:
    prompt, options = build_prompt(omni.tokenizer, "hi"), MaskGitOptions(steps=3)
    noise = PhiloxNoise(5)
    first = omni.maskgit.generate(prompt, 8, options, noise)
    second = omni.maskgit.generate(prompt, 8, options, noise)
    assert (first == omni.maskgit.generate(prompt, 8, options, 5)).all()
    assert (first != second).any()


def test_programs_are_kept_and_shared(omni: OmniParts, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[StepShape] = []

    class Counted(Step):
        def _build(self):  # type: ignore[no-untyped-def]
            built.append(self.shape)
            return super()._build()

    monkeypatch.setattr(maskgit, "Step", Counted)
    own = MaskGit(omni.backbone)
    prompts = [build_prompt(omni.tokenizer, text) for text in ("a", "b")]
    first = own.generate(prompts[0], 4, GREEDY)
    own.generate(prompts[1], 4, GREEDY)
    assert len(built) == 1
    for frames in range(5, 5 + maskgit.KEPT_PROGRAMS):
        own.generate(prompts[0], frames, GREEDY)
    assert (own.generate(prompts[0], 4, GREEDY) == first).all()
    assert len(built) == maskgit.KEPT_PROGRAMS + 2


def test_threads_share_a_program(omni: OmniParts) -> None:
    prompts = [build_prompt(omni.tokenizer, text) for text in "abcdefgh"]
    expected = [omni.maskgit.generate(prompt, 6, GREEDY) for prompt in prompts]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda prompt: omni.maskgit.generate(prompt, 6, GREEDY), prompts))
    assert all((one == other).all() for one, other in zip(expected, found, strict=True))


def test_prompts_take_turns_in_a_program(omni: OmniParts) -> None:
    """A prompt stays on the device until another one runs."""
    step = Step(omni.backbone, StepShape(5, 3))
    texts = [omni.backbone.text_rows(np.arange(start, start + 5, dtype=np.int32)) for start in (7, 90)]
    prompts = [step.prompted(rows) for rows in texts]
    codes = omni.masked(3)
    alone = [Step(omni.backbone, StepShape(5, 3)).prompted(rows).guess(codes, 2.0) for rows in texts]
    assert (alone[0].scores != alone[1].scores).any()
    for index in (0, 1, 1, 0, 1):
        assert (prompts[index].guess(codes, 2.0).scores == alone[index].scores).all()


def test_scores_of_long_speech_go_in_pieces(omni: OmniParts, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt, codes = build_prompt(omni.tokenizer, "hi"), omni.masked(9)
    shape, rows = StepShape(prompt.length, 9), omni.backbone.prompt_rows(prompt)
    whole = Step(omni.backbone, shape).prompted(rows).guess(codes, 2.0)
    monkeypatch.setattr(scoring, "EXACT_INTEGERS", 10 * omni.file.audio_vocabulary + 3)
    pieces = Step(omni.backbone, shape).prompted(rows).guess(codes, 2.0)
    assert (whole.codes == pieces.codes).all()
    assert (whole.scores == pieces.scores).all()


def test_drawn_codes_are_likely_ones() -> None:
    logits = np.random.default_rng(1).normal(size=(6, 40)).astype(np.float32)
    logits[:, 39] = 50  # the mask, which must never be drawn
    uniform = np.random.default_rng(2).uniform(size=logits.size).astype(np.float32)
    guess = draw_codes(np.arange(6), logits, 6, 1e3, RecordedNoise([uniform]), mask_code=39)
    best = np.argsort(logits[:, :39], -1)[:, -4:]
    assert (best == guess.codes[:, None]).any(-1).all()
    assert (guess.codes != best[:, -1]).any()
    log_sum = np.log(np.exp(logits.astype(np.float64)).sum(-1))
    np.testing.assert_allclose(guess.scores, logits[:, :39].max(-1) - log_sum, rtol=1e-5)


def test_drawn_codes_do_not_depend_on_the_places_left_out() -> None:
    logits = np.random.default_rng(1).normal(size=(6, 40)).astype(np.float32)
    whole = draw_codes(np.arange(6), logits, 6, 0.9, PhiloxNoise(3), mask_code=39)
    some = np.array([1, 2, 5])
    part = draw_codes(some, logits[some], 6, 0.9, PhiloxNoise(3), mask_code=39)
    assert (part.codes == whole.codes[some]).all()
    assert (part.scores == whole.scores[some]).all()


def test_only_masked_places_are_guessed(omni: OmniParts) -> None:
    """And what is thought of them is what it would be among all others."""
    prompt, codes = build_prompt(omni.tokenizer, "hi there"), omni.masked(5)
    codes[2] = 3
    codes[:, 0] = 1
    masked = np.flatnonzero((codes == omni.file.mask_code).T)
    rows = omni.backbone.prompt_rows(prompt)
    shape = StepShape(prompt.length, 5)
    everywhere = Step(omni.backbone, shape).prompted(rows).run(codes, 2.0)
    guess = Step(omni.backbone, shape).prompted(rows).guess(codes, 2.0)
    assert guess.places.tolist() == masked.tolist()
    for found, name in ((guess.codes, "codes"), (guess.scores, "scores")):
        assert (found == everywhere[name].reshape(codes.shape).T.reshape(-1)[masked]).all()
    drawing = Step(omni.backbone, replace(shape, distributions=True)).prompted(rows)
    places, logits = drawing.distributions(codes, 2.0)
    assert places.tolist() == masked.tolist()
    assert (np.delete(logits, omni.file.mask_code, 1).argmax(1) == guess.codes).all()


def test_each_step_guesses_fewer_places(omni: OmniParts) -> None:
    steps: list[Progress] = []
    prompt, options = build_prompt(omni.tokenizer, "hi"), MaskGitOptions(steps=5, class_temperature=0.5)
    omni.maskgit.generate(prompt, 7, options, 3, steps.append)
    left = 7 * omni.file.codebooks
    for step in steps:
        assert len(step.guess.places) == left
        left -= step.fixed
    assert left == 0


def test_choice_of_places() -> None:
    """The best masked ones; a code that is fixed is never changed."""
    codes = np.array([[9, 9], [1, 9]], np.int32)
    guess = Guess(np.array([0, 2, 3]), np.array([3, 5, 6], np.int32), np.array([-2, -1, -9], np.float32))
    options = MaskGitOptions(position_temperature=0, layer_penalty=0)
    filled = choose(codes, guess, 2, options, RecordedNoise([]))
    assert filled.tolist() == [[3, 5], [1, 9]]
    steep = MaskGitOptions(position_temperature=0, layer_penalty=5)
    assert choose(codes, guess, 1, steep, RecordedNoise([])).tolist() == [[3, 9], [1, 9]]


def test_compatible_guidance_changes_only_guided_runs(omni: OmniParts) -> None:
    prompt, codes = build_prompt(omni.tokenizer, "hi there"), omni.masked(6)
    usual, biased = (
        omni.maskgit.trace(prompt, codes, MaskGitOptions(cfg_compat=compatible))
        for compatible in (False, True)
    )
    assert deviation(usual["cond_logits"], biased["cond_logits"]) < 1e-6
    assert deviation(usual["uncond_logits"], biased["uncond_logits"]) > 1e-3
    unguided = MaskGitOptions(guidance=0, cfg_compat=True)
    assert "uncond_logits" not in omni.maskgit.trace(prompt, codes, unguided)


def test_too_long_or_too_short(omni: OmniParts) -> None:
    prompt = build_prompt(omni.tokenizer, "hi")
    with pytest.raises(UsageError, match="0 frames cannot be spoken"):
        omni.maskgit.generate(prompt, 0)
    with pytest.raises(UsageError, match="the model has 40960 positions"):
        omni.maskgit.generate(prompt, 40960)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "0 steps are not usable"),
        ({"guidance": -1.0}, "guidance -1.0 is not usable"),
        ({"guidance": math.inf}, "guidance inf is not usable"),
        ({"t_shift": 0.0}, "t-shift 0.0 is not usable"),
        ({"layer_penalty": math.nan}, "layer penalty nan is not usable"),
        ({"position_temperature": -0.1}, "position temperature -0.1 is not usable"),
        ({"class_temperature": math.nan}, "class temperature nan is not usable"),
    ],
)
def test_impossible_options(options: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MaskGitOptions(**options)  # type: ignore[arg-type]


def test_codes_that_are_all_but_impossible_can_be_ranked() -> None:
    """Strong guidance leaves the best code of a place a probability that float32 rounds to 0."""
    codes = np.array([[3, 9], [9, 9]], np.int32)
    guess = Guess(np.arange(1, 4), np.full(3, 5, np.int32), np.full(3, -np.inf, np.float32))
    for options in (GREEDY, MaskGitOptions(position_temperature=1e-6, layer_penalty=1e6)):
        filled = choose(codes, guess, 3, options, RecordedNoise([np.full(4, 0.5, np.float32)]))
        assert filled.tolist() == [[3, 5], [5, 5]]


def test_eager_cases_are_there() -> None:
    assert sum(name.endswith(EAGER) for name in SPEECH_CASES) == 6
