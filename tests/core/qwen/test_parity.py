"""Talker, code predictor and prompt against the official package, stage by stage, on every golden case."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from ggtts.core.formats.qwen import TalkerFile
from ggtts.core.qwen.choices import Choose
from ggtts.core.qwen.code_predictor import CodePredictorSession
from ggtts.core.qwen.frames import FrameSampler
from ggtts.core.qwen.generation import Session, Utterance
from ggtts.core.qwen.prompt import PromptRequest
from ggtts.core.qwen.talker import TalkerSession
from ggtts.core.sampling import SamplingOptions, TokenSampler
from ggtts.core.speech.timings import Stopwatch
from support.comparing import deviation
from support.data import Golden, golden_names
from support.qwen_parts import Parts, comparable_codes, greedy_sampler, prompt_request
from support.tolerances import ACTIVATION, HALF_PRECISION_CACHE, LOGIT_MARGIN, PROBABILITY

Load = Callable[[str], Golden]
Open = Callable[[str], Parts]

DEFAULT_SAMPLING = {"temperature": 0.9, "top_k": 50, "top_p": 1.0}

CASES = [*golden_names("qwen_0"), *golden_names("qwen_1")]


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, golden: Load) -> Golden:
    loaded: Golden = golden(request.param)
    return loaded


def close(found: np.ndarray, case: Golden, key: str, tolerance: float = ACTIVATION) -> None:
    """Compare one stage, if the case has it."""
    if key in case:
        assert deviation(found, case[key]) < tolerance, key


def test_prompt(case: Golden, parts: Open) -> None:
    model = parts(case.meta["checkpoint"])
    prompt = model.prompts.build(prompt_request(case, model.file))
    assert prompt.tokens.tolist() == case["input_ids"].tolist()
    for key, tokens in (("instruct_ids", prompt.instruct_tokens), ("ref_ids", prompt.reference_tokens)):
        assert tokens.tolist() == (case[key].tolist() if key in case else [])
    close(prompt.rows, case, "prompt_embeds")
    close(prompt.trailing, case, "trailing_text")
    close(prompt.padding, case, "tts_pad_embed")


def test_every_layer_of_the_talker(case: Golden, parts: Open) -> None:
    model = parts(case.meta["checkpoint"])
    layers = range(model.file.talker.layers)
    step = model.talker.session("f32").prefill(case["prompt_embeds"], taps=[*layers, "final"])
    for layer in layers:
        close(step.taps[layer], case, f"prefill_layer{layer}")
    close(step.taps["final"], case, "prefill_final")
    assert deviation(step.logits, case["logits"][0]) < ACTIVATION


def test_every_layer_of_the_code_predictor(case: Golden, parts: Open) -> None:
    model = parts(case.meta["checkpoint"])
    if "cp_in" not in case:
        pytest.skip("this case stores no stages")
    stages = model.predictor.session("f32").trace(case["cp_in"][0], case["codes"][0])
    close(stages["projected"], case, "cp_in_projected")
    for layer in range(model.file.code_predictor.layers):
        close(stages[f"layer{layer}"], case, f"cp_layer{layer}")
    close(stages["final"], case, "cp_final")
    assert deviation(stages["logits"], case["cp_logits"][0]) < ACTIVATION


@pytest.mark.parametrize(("kv_type", "tolerance"), [("f32", ACTIVATION), ("f16", HALF_PRECISION_CACHE)])
def test_logits_along_the_given_codes(case: Golden, parts: Open, kv_type: str, tolerance: float) -> None:
    model = parts(case.meta["checkpoint"])
    talker, predictor = model.talker.session(kv_type), model.predictor.session(kv_type)
    prompt = model.prompts.build(prompt_request(case, model.file))
    step = talker.prefill(prompt.rows)
    for frame, codes in enumerate(case["codes"]):
        if frame < len(case["logits"]):
            assert deviation(step.logits, case["logits"][frame]) < tolerance
        logits, embedding = teacher_forced(predictor, step.hidden, codes)
        if frame < len(case["cp_logits"]):
            assert deviation(logits, case["cp_logits"][frame]) < tolerance
        row = embedding + prompt.text_row(frame)
        step = talker.decode(row)
        if frame < len(case["step_embeds"]):
            assert deviation(row, case["step_embeds"][frame]) < ACTIVATION
            assert deviation(step.hidden, case["step_final"][frame]) < tolerance


def teacher_forced(
    predictor: CodePredictorSession, hidden: np.ndarray, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Logits [codebooks - 1, entries] and embedding of a frame whose codes are given."""
    logits = []

    def choose(found: np.ndarray, codebook: int) -> int:
        logits.append(found)
        return int(codes[codebook])

    frame = predictor.expand(hidden, int(codes[0]), choose)
    assert (frame.codes == codes).all()
    return np.stack(logits), frame.embedding


def test_greedy_codes(case: Golden, parts: Open) -> None:
    model = parts(case.meta["checkpoint"])
    prompt = model.prompts.build(prompt_request(case, model.file))
    utterance = Utterance(
        Session(model.talker.session("f32"), model.predictor.session("f32")),
        prompt,
        greedy_sampler(model.file, case.meta["repetition_penalty"]),
        # The official package counts the step that would follow the last frame.
        max_frames=case.meta["max_new_tokens"] - 1,
        stopwatch=Stopwatch(),
    )
    found = np.stack(list(utterance))
    count = comparable_codes(case, LOGIT_MARGIN)
    assert count == case["codes"].size, "a margin is too small to compare every code"
    assert found.tolist() == case["codes"].tolist()
    assert utterance.stop == {"eos": "end_of_speech", "max_new_tokens": "max_frames"}[case.meta["stop"]]


class Replay(FrameSampler):
    """Draws what the official package drew, and compares the probabilities that it drew from."""

    def __init__(self, case: Golden, file: TalkerFile) -> None:
        drawn = {"temperature": 0.9, "top_k": 50, "top_p": 1.0, **case.meta["sampling"]}
        sub = {name: drawn.get(f"subtalker_{name}", value) for name, value in DEFAULT_SAMPLING.items()}
        talker = SamplingOptions(
            **{name: drawn[name] for name in DEFAULT_SAMPLING},
            repetition_penalty=case.meta["repetition_penalty"],
        )
        super().__init__(file, talker, SamplingOptions(**sub), seed=0)
        self.case = case
        self.compared = 0

    def first(self, frame: int, logits: np.ndarray) -> int:
        drawn = int(self.case["talker_draws"][frame])
        self._compare(self.talker, logits, self.case["talker_probs"][frame])
        forced = np.full(len(logits), -np.inf, np.float32)
        forced[drawn] = 0
        return super().first(frame, forced)

    def others(self, frame: int) -> Choose:  # type: ignore[override]  # nothing that a device could draw by itself
        return partial(self.other, frame)

    def other(self, frame: int, logits: np.ndarray, codebook: int) -> int:
        index = 15 * frame + codebook - 1
        if index < len(self.case["cp_probs"]):
            self._compare(self.predictor, logits, self.case["cp_probs"][index])
        return int(self.case["cp_draws"][index])

    def _compare(self, sampler: TokenSampler, logits: np.ndarray, expected: np.ndarray) -> None:
        np.testing.assert_allclose(sampler.probabilities(logits), expected, atol=PROBABILITY)
        self.compared += 1


@pytest.mark.parametrize("name", golden_names("qwen_sampling_"))
def test_sampled_speech_with_the_official_draws(name: str, golden: Load, parts: Open) -> None:
    case, model = golden(name), parts("Qwen3-TTS-12Hz-0.6B-Base")
    request = PromptRequest(case.meta["text"], model.file.languages["english"], streamed_text=True)
    sampler = Replay(case, model.file)
    utterance = Utterance(
        Session(model.talker.session("f32"), model.predictor.session("f32")),
        model.prompts.build(request),
        sampler,
        case.meta["max_new_tokens"] - 1,
        Stopwatch(),
    )
    assert [frame.tolist() for frame in utterance] == case["codes"].tolist()
    assert sampler.compared == len(case["codes"]) + len(case["cp_probs"])


@pytest.mark.parametrize("name", golden_names("qwen_sampling_"))
def test_logits_behind_the_sampled_codes(name: str, golden: Load, parts: Open) -> None:
    case = golden(name)
    model = parts("Qwen3-TTS-12Hz-0.6B-Base")
    request = PromptRequest(case.meta["text"], model.file.languages["english"], streamed_text=True)
    prompt = model.prompts.build(request)
    assert prompt.tokens.tolist() == case["input_ids"].tolist()
    talker, predictor = model.talker.session("f32"), model.predictor.session("f32")
    step = talker.prefill(prompt.rows)
    for frame, codes in enumerate(case["codes"]):
        assert deviation(step.logits, case["talker_logits"][frame]) < ACTIVATION
        logits, embedding = teacher_forced(predictor, step.hidden, codes)
        if frame < len(case["cp_logits"]):
            assert deviation(logits, case["cp_logits"][frame]) < ACTIVATION
        step = talker.decode(embedding + prompt.text_row(frame))


def test_a_row_of_the_official_batch_is_an_utterance_of_its_own(golden: Load, parts: Open) -> None:
    case, model = golden("batch_0.6B-CustomVoice"), parts("Qwen3-TTS-12Hz-0.6B-CustomVoice")
    voices = [("vivian", "english"), ("eric", "auto"), ("ryan", "auto")]
    for index, (text, (speaker, language)) in enumerate(zip(case.meta["texts"], voices, strict=True)):
        settings = {
            "text": text,
            "speaker": speaker,
            "language": language,
            "instruct": None,
            "streaming_text": False,
        }
        request = prompt_request(Golden("batch", {}, settings), model.file)
        attended = case["attention_mask"][index] == 1
        rows = model.prompts.build(request).rows
        assert deviation(rows, case["prompt_embeds"][index][attended]) < ACTIVATION
        for section in case["position_ids_prefill"]:
            assert section[index][attended].tolist() == list(range(len(rows)))
        assert (case["position_ids_step1"][:, index] == len(rows)).all()


def test_one_session_serves_many_utterances(golden: Load, parts: Open) -> None:
    name = "0.6B-Base_english_full"
    case, model = golden(name), parts("Qwen3-TTS-12Hz-0.6B-Base")
    session: TalkerSession = model.talker.session("f32")
    first = session.prefill(case["prompt_embeds"]).logits
    for rows in (case["prompt_embeds"][:7], np.repeat(case["prompt_embeds"], 20, axis=0)):
        session.prefill(rows)
        session.decode(rows[0])
    assert (session.prefill(case["prompt_embeds"]).logits == first).all()
