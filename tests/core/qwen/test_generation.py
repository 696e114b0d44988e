"""The frame loop with models that say what a test wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ggtts.core.errors import EngineError, UsageError
from ggtts.core.qwen.choices import Choose
from ggtts.core.qwen.expanded_frame import ExpandedFrame
from ggtts.core.qwen.frames import FrameSampler
from ggtts.core.qwen.generation import Session, Utterance
from ggtts.core.qwen.guard import Guard
from ggtts.core.qwen.prompt import Prompt
from ggtts.core.qwen.talker import TalkerStep
from ggtts.core.sampling import SamplingOptions
from ggtts.core.speech.timings import Stopwatch
from support.talker_files import TOKENS, talker_file

FILE = talker_file(tokens=TOKENS, vocabulary=1024 + 40, codebooks=4)
END = 1030
WIDTH = 2


def logits(*best: int) -> np.ndarray:
    """Logits [vocabulary] with these ids on top, the first one highest."""
    values = np.zeros(FILE.vocabulary, np.float32)
    values[list(best)] = 10 - np.arange(len(best), dtype=np.float32)
    return values


@dataclass
class ScriptedTalker:
    """Names the given codes one after the other, then the end; remembers its inputs."""

    script: list[np.ndarray]
    limit: int | None = None
    length: int = 0
    expected: int = 0
    rows: list[np.ndarray] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return self.limit is not None and self.length >= self.limit

    def prefill(self, prompt: np.ndarray, *, frames: int = 0, taps: Sequence[int | str] = ()) -> TalkerStep:
        self.length, self.expected = len(prompt), frames
        return self._step()

    def decode(self, row: np.ndarray) -> TalkerStep:
        assert not self.full
        self.rows.append(row)
        self.length += 1
        return self._step()

    def _step(self) -> TalkerStep:
        said = len(self.rows)
        best = self.script[said] if said < len(self.script) else logits(END)
        return TalkerStep(best, np.full(WIDTH, said, np.float32))


class ScriptedPredictor:
    """Code c of a frame is the first code plus c; the embedding is the first code."""

    def expand(self, hidden: np.ndarray, first: int, choose: Choose) -> ExpandedFrame:
        codes = [first]
        for codebook in range(1, FILE.codebooks):
            wanted = np.zeros(FILE.codebook_entries, np.float32)
            wanted[first + codebook] = 1
            codes.append(choose(wanted, codebook))
        return ExpandedFrame(np.array(codes, np.int32), np.full(WIDTH, first, np.float32))


def utterance(
    talker: ScriptedTalker,
    max_frames: int = 100,
    prompt_rows: int = 3,
    guard: Guard | None = None,
    **options: Any,
) -> Utterance:
    """A greedy utterance with two rows of trailing text, 0.1 and 0.2, then 0.5."""
    file = talker_file(
        tokens=TOKENS.__class__(**{**vars(TOKENS), "codec_end": END}), vocabulary=FILE.vocabulary
    )
    none = np.zeros(0, np.int32)
    trailing = np.array([[0.1] * WIDTH, [0.2] * WIDTH], np.float32)
    prompt = Prompt(
        none,
        none,
        none,
        np.zeros((prompt_rows, WIDTH), np.float32),
        trailing,
        np.full(WIDTH, 0.5, np.float32),
    )
    greedy = SamplingOptions(do_sample=False)
    sampler = FrameSampler(file, SamplingOptions(do_sample=False, **options), greedy, seed=1)
    session: Any = Session(talker, ScriptedPredictor())  # type: ignore[arg-type]
    return Utterance(session, prompt, sampler, max_frames, Stopwatch(), guard=guard)


def test_frames_until_the_end_of_speech() -> None:
    talker = ScriptedTalker([logits(4), logits(7), logits(5)])
    speech = utterance(talker)
    assert [frame.tolist() for frame in speech] == [[4, 5, 6, 7], [7, 8, 9, 10], [5, 6, 7, 8]]
    assert speech.stop == "end_of_speech"


def test_a_frame_is_fed_back_with_its_text() -> None:
    talker = ScriptedTalker([logits(4), logits(7), logits(5), logits(6)])
    list(utterance(talker))
    assert np.allclose(np.stack(talker.rows)[:, 0], [4.1, 7.2, 5.5, 6.5])


def test_frames_are_made_when_asked_for() -> None:
    talker = ScriptedTalker([logits(4), logits(7)])
    speech = utterance(talker)
    frames = iter(speech)
    assert talker.length == 0
    next(frames)
    assert (talker.rows, speech.stop) == ([], None)
    next(frames)
    assert len(talker.rows) == 1


def test_the_frame_limit() -> None:
    talker = ScriptedTalker([logits(4)] * 9)
    speech = utterance(talker, max_frames=3)
    assert len(list(speech)) == 3
    assert speech.stop == "max_frames"
    assert len(talker.rows) == 2, "the talker is not asked for a frame that nobody wants"


def test_two_frames_at_least() -> None:
    speech = utterance(ScriptedTalker([logits(END, 4), logits(END, 7), logits(END, 5)]))
    assert [frame[0] for frame in speech] == [4, 7]
    assert speech.stop == "end_of_speech"


def test_reserved_ids_are_never_spoken() -> None:
    speech = utterance(ScriptedTalker([logits(FILE.vocabulary - 1, 40, 12), logits(1063, 36, 3)]))
    assert [frame[0] for frame in speech] == [12, 36]


def test_the_penalty_acts_on_greedy_speech_too() -> None:
    close_call = np.zeros(FILE.vocabulary, np.float32)
    close_call[[4, 7]] = 10.0, 9.8
    speech = utterance(ScriptedTalker([close_call] * 2), repetition_penalty=1.05)
    assert [frame[0] for frame in speech] == [4, 7]


@pytest.mark.parametrize(("limit", "frames"), [(3, 1), (4, 2), (5, 3)])
def test_a_full_context_ends_the_utterance_with_what_exists(limit: int, frames: int) -> None:
    speech = utterance(ScriptedTalker([logits(4)] * 9, limit=limit))
    assert len(list(speech)) == frames
    assert speech.stop == "context"


def test_a_prompt_beyond_the_context_is_an_error() -> None:
    with pytest.raises(UsageError, match="needs 3 positions, and the model has 2"):
        list(utterance(ScriptedTalker([], limit=2)))


def test_the_guard_ends_what_takes_too_long() -> None:
    talker = ScriptedTalker([logits(4 + index % 30) for index in range(200)])
    guard = Guard("Huh?", frame_rate=12.5)
    speech = utterance(talker, max_frames=190, guard=guard)
    assert len(list(speech)) == guard.most_frames < 100
    assert speech.stop == "runaway"
    assert "more than the text can take" in str(speech.runaway)
    assert talker.expected == guard.most_frames, "no memory is set aside for frames that the guard forbids"


def test_the_guard_ends_repetition_and_keeps_it() -> None:
    speech = utterance(ScriptedTalker([logits(5), *[logits(4)] * 99]), guard=Guard("Hello. " * 50, 12.5))
    assert [frame[0] for frame in speech] == [5, *[4] * 26]
    assert speech.stop == "runaway"
    assert "repeats the same 0.08 s" in str(speech.runaway)


def test_a_frame_limit_below_the_guard_is_a_frame_limit() -> None:
    speech = utterance(ScriptedTalker([logits(4)] * 99), max_frames=20, guard=Guard("Huh?", 12.5))
    assert len(list(speech)) == 20
    assert (speech.stop, speech.runaway) == ("max_frames", None)


def test_logits_that_are_no_numbers_are_an_error() -> None:
    broken = np.full(FILE.vocabulary, np.nan, np.float32)
    with pytest.raises(EngineError, match="frame 1, codebook 0"):
        list(utterance(ScriptedTalker([logits(4), broken])))
