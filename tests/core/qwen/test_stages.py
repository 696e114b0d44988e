"""What a step of a batch takes together, and what it leaves for the next one."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.errors import EngineError
from ggtts.core.nn.attention import mask_values
from ggtts.core.qwen.batch import FrameStage, PrefillStage
from ggtts.core.qwen.cadence import STREAM_FRAMES
from ggtts.core.qwen.choices import Choices
from ggtts.core.qwen.codec_stage import CodecStage, Decode, Forget, Place, Prime, Snapshot
from ggtts.core.qwen.frames import FrameSampler, first_codes
from ggtts.core.sampling import SamplingOptions
from support.talker_files import TOKENS, talker_file

NOBODY: Any = None
FILE = talker_file(tokens=TOKENS, vocabulary=1024 + 40, codebooks=4)


def codes(frames: int) -> np.ndarray:
    return np.zeros((frames, 16), np.int32)


class Prefills:
    """A talker whose prompts take a certain time."""

    def groups(self, prompts: Sequence[Any]) -> list[list[int]]:
        return [[place] for place in range(len(prompts))]

    def prefill(self, slot: Any, prompt: Any, **options: Any) -> str:
        return "begun"


@pytest.mark.parametrize(
    ("step", "prompt", "together"), [(0.0, 0.01, 1), (0.005, 0.01, 1), (0.03, 0.01, 3), (1.0, 0.01, 5)]
)
def test_as_many_prompts_as_a_step_takes_time(step: float, prompt: float, together: int) -> None:
    frames = FrameStage(NOBODY, NOBODY)
    stage = PrefillStage(Prefills(), frames)  # type: ignore[arg-type]
    waiting = [stage.call(NOBODY) for _ in range(5)]
    assert len(stage.pick(waiting)) == 1, "nothing is known yet"
    frames.seconds, stage._seconds = step, prompt
    assert stage.pick(waiting) == waiting[:together]


def test_of_wide_pieces_some_and_of_each_stream_one() -> None:
    stage = CodecStage(NOBODY, beside=False)
    places = [Place(None) for _ in range(5)]
    narrow, wide = codes(STREAM_FRAMES), codes(STREAM_FRAMES + 1)
    calls = [
        stage.call(work)
        for work in (
            Decode(places[0], narrow),
            Decode(places[1], wide),
            Decode(places[2], wide),
            Prime(places[3], wide, last=False),
            Decode(places[0], narrow),
            Snapshot(places[4]),
            Forget(places[4]),
            Decode(places[2], narrow),
        )
    ]
    picked = stage.pick(calls)
    assert [calls.index(call) for call in picked] == [0, 1, 5], "what is behind a piece waits for it"
    left = [call for call in calls if call not in picked]
    assert [calls.index(call) for call in stage.pick(left)] == [2, 4, 6]


def test_beside_the_beginnings_come_first_and_then_one_run() -> None:
    runs = SimpleNamespace(together=lambda count, frames: min(count, 2), stream=lambda snapshot: object())
    stage = CodecStage(runs, beside=True)  # type: ignore[arg-type]
    places = [Place(None) for _ in range(7)]
    for begun in places[:5]:
        begun.stream(runs)  # type: ignore[arg-type]
    asked = [(0, 4), (1, 2), (2, 4), (3, 4), (0, 1), (5, 1), (6, 1)]
    calls = [stage.call(Decode(places[place], codes(frames))) for place, frames in asked]
    left, picked = [*calls, stage.call(Forget(places[4]))], []
    while left:
        picked.append([left.index(call) for call in stage.pick(left)])
        chosen = stage.pick(left)
        assert len({id(call.argument.place) for call in chosen}) == len(chosen), "no stream twice"
        for call in chosen:
            call.argument.place.stream(runs)  # type: ignore[arg-type]
        left = [call for call in left if call not in chosen]
    assert picked == [[7, 5, 6], [0, 2], [0], [0], [0]]


def samplers(count: int) -> list[FrameSampler]:
    options = SamplingOptions(temperature=0.9, top_k=20)
    return [FrameSampler(FILE, options, options, seed) for seed in range(count)]


def line(frame: int, sampler: FrameSampler) -> Any:
    """An utterance at one of its frames."""
    return SimpleNamespace(frame=frame, sampler=sampler)


def test_first_codes_are_what_each_draws_alone() -> None:
    logits = np.random.default_rng(1).normal(size=(3, FILE.vocabulary)).astype(np.float32)
    lines = [line(frame, one) for frame, one in enumerate(samplers(3))]
    expected = [
        one.first(frame, row) for frame, (one, row) in enumerate(zip(samplers(3), logits, strict=True))
    ]
    assert first_codes(lines, logits) == expected
    logits[1, 0] = np.nan
    found = first_codes([line(5, one) for one in samplers(3)], logits)
    assert isinstance(found[1], EngineError)
    assert "frame 5, codebook 0" in str(found[1])
    assert all(isinstance(found[place], int) for place in (0, 2))


@pytest.mark.parametrize("known", [True, False])
def test_other_codes_are_what_each_draws_alone(known: bool) -> None:
    logits = np.random.default_rng(2).normal(size=(3, 3, 64)).astype(np.float32)
    logits[1, 2, 7] = np.nan
    choices: list[Any] = [one.others(frame) for frame, one in enumerate(samplers(3))]
    if not known:
        choices[0] = lambda row, codebook: 11
    chosen = Choices(choices)
    found = np.stack([chosen.codes(rows, codebook) for codebook, rows in enumerate(logits, start=1)])
    expected = [
        [one.other(frame, rows[frame], codebook) for codebook, rows in enumerate(logits, start=1)]
        for frame, one in list(enumerate(samplers(3)))[:2]
    ]
    assert found[:, 0].tolist() == (expected[0] if known else [11] * 3)
    assert found[:, 1].tolist() == expected[1]
    assert list(chosen.failures) == [2]
    assert "frame 2, codebook 2" in str(chosen.failures[2])


@given(places=st.lists(st.integers(0, 40), min_size=1, max_size=5), window=st.sampled_from([0, 1, 7]))
def test_masks_of_many_are_those_of_each(places: list[int], window: int) -> None:
    together = mask_values(np.array(places, np.int32)[:, None], 48, window)
    assert together.shape == (len(places), 1, 48)
    for row, place in zip(together, places, strict=True):
        alone = mask_values(np.array([place], np.int32), 48, window)
        assert np.array_equal(row, alone)
        seen = [key for key in range(48) if key <= place and (not window or key > place - window)]
        assert np.flatnonzero(row[0] == 0).tolist() == seen
