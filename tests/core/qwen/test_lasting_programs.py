"""Where programs are dear, as on GPUs, few of them serve all, and they last; results are those of exact ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.errors import EngineError, UsageError
from ggtts.core.qwen.batch import PrefillStage
from ggtts.core.qwen.model import QwenTTS
from ggtts.core.qwen.prompt import Prompt, PromptRequest
from ggtts.core.qwen.talker import Talker
from ggtts.core.qwen.talker_batch import Prefill, TalkerBatch, TalkerSlot
from ggtts.core.qwen.text_projection import TOKENS_AT_ONCE, TextProjection
from support.comparing import deviation, same
from support.device import DEVICE
from support.qwen_parts import Parts
from support.tolerances import HALF_PRECISION_CACHE

TALKER, CODEC = "Qwen3-TTS-12Hz-0.6B-CustomVoice", "Qwen3-TTS-Tokenizer-12Hz"
Steps = list[np.ndarray]


@pytest.fixture
def stock_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let CPUs compute as GPUs do."""
    monkeypatch.setenv("GGTTS_STOCK", "1")


@pytest.fixture(scope="module")
def talker(tiny_gguf: Callable[..., Path]) -> Talker:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GGTTS_STOCK", "1")
        return Parts.open(Engine(DEVICE, threads=1), tiny_gguf(TALKER)).talker


@pytest.fixture
def model(stock_variable: None, tiny_gguf: Callable[..., Path]) -> Iterator[QwenTTS]:
    with QwenTTS.open(tiny_gguf(TALKER), tiny_gguf(), device=DEVICE, threads=1) as opened:
        yield opened


def rows(talker: Talker, count: int, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal((count, talker.config.width))
    return values.astype(np.float32)


def exactly(talker: Talker, x: np.ndarray, prompt: int) -> Steps:
    """Logits of a session whose prompt is not padded: one with taps."""
    session = talker.session()
    return [
        session.prefill(x[:prompt], taps=["final"]).logits,
        *(session.decode(row).logits for row in x[prompt:]),
    ]


@pytest.mark.parametrize("prompt", [1, 15, 16, 17, 120, 129, 300])
def test_a_padded_prompt_is_the_exact_one(talker: Talker, prompt: int) -> None:
    x = rows(talker, prompt + 20, prompt)
    expected, session = exactly(talker, x, prompt), talker.session()
    batch = TalkerBatch(talker, "f16")
    slot = batch.join()
    for _ in range(2):  # also over what an earlier sequence has left
        found = [session.prefill(x[:prompt]).logits, *(session.decode(row).logits for row in x[prompt:])]
        slots = [batch.prefill(slot, x[:prompt]).logits]
        slots += [batch.decode([slot], row[None])[0].logits for row in x[prompt:]]
        for results in (found, slots):
            assert max(map(deviation, results, expected)) <= HALF_PRECISION_CACHE
            assert [int(row.argmax()) for row in results] == [int(row.argmax()) for row in expected]


def test_a_session_keeps_its_programs(talker: Talker) -> None:
    session = talker.session()
    for seed, tokens in enumerate((20, 30, 25, 17)):
        session.prefill(rows(talker, tokens, seed), frames=50)
    assert session._programs.built == 1
    session.prefill(rows(talker, 33, 9), frames=50)
    assert session._programs.built == 2


def test_the_end_of_the_context_is_that_of_the_prompt(
    talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talker, "context_length", 20)
    x = rows(talker, 20, 1)
    session, batch = talker.session(), TalkerBatch(talker, "f16")
    slot = batch.join()
    session.prefill(x[:18], frames=100)
    batch.prefill(slot, x[:18], frames=100)
    for row in x[18:]:
        assert (
            deviation(batch.decode([slot], row[None])[0].logits, session.decode(row).logits)
            <= HALF_PRECISION_CACHE
        )
    assert session.full
    assert batch.is_full(slot)
    with pytest.raises(ValueError, match="exceed the limit of 20"):
        batch.decode([slot], x[:1])


def test_those_who_come_together_begin_in_one_run(talker: Talker, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    original = TalkerBatch.prefill_together

    def counted(self: TalkerBatch, prompts: Any) -> Any:
        runs.append(len(prompts))
        return original(self, prompts)

    monkeypatch.setattr(TalkerBatch, "prefill_together", counted)
    lengths = [5, 30, 200, 16, 31, 9, 32, 7, 60, 40]
    x = [rows(talker, length + 12, seed) for seed, length in enumerate(lengths)]
    batch = TalkerBatch(talker, "f16", capacity=len(lengths))
    slots = [batch.join() for _ in lengths]
    asked = [Prefill(slot, one[:length]) for slot, one, length in zip(slots, x, lengths, strict=True)]
    steps = PrefillStage(batch, None).run(asked)  # type: ignore[arg-type]
    assert runs == [7, 1, 2]
    expected = [exactly(talker, one, length) for one, length in zip(x, lengths, strict=True)]
    for step, alone in zip(steps, expected, strict=True):
        assert not isinstance(step, Exception)
        assert deviation(step.logits, alone[0]) <= HALF_PRECISION_CACHE
    for further in range(12):
        at = [one[length + further] for one, length in zip(x, lengths, strict=True)]
        for step, alone in zip(batch.decode(slots, np.stack(at)), expected, strict=True):
            assert deviation(step.logits, alone[further + 1]) <= HALF_PRECISION_CACHE


def test_one_that_fails_does_not_take_the_others_along(
    talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = TalkerBatch(talker, "f16", capacity=3)
    monkeypatch.setattr(talker, "context_length", 24)
    batch._cache.limit = 24
    asked = [Prefill(batch.join(), rows(talker, length, length)) for length in (5, 30, 9)]
    first, second, third = PrefillStage(batch, None).run(asked)  # type: ignore[arg-type]
    assert isinstance(second, ValueError)
    for step, length in ((first, 5), (third, 9)):
        assert not isinstance(step, Exception)
        assert (
            deviation(step.logits, exactly(talker, rows(talker, length, length), length)[0])
            <= HALF_PRECISION_CACHE
        )


@dataclass
class Line:
    """An utterance of so many frames."""

    slot: TalkerSlot
    left: int


def speak_all(batch: TalkerBatch, talker: Talker, lines: int, at_once: int) -> None:
    """Speak lines of about 50 frames, as many at once, others following as they end."""
    waiting = deque(range(lines))
    active: list[Line] = []
    while waiting or active:
        newcomers = [waiting.popleft() for _ in range(min(len(waiting), at_once - len(active)))]
        begun = [Line(batch.join(), 45 + number % 10) for number in newcomers]
        asked = [
            Prefill(line.slot, rows(talker, 14 + number % 30, number), frames=50)
            for line, number in zip(begun, newcomers, strict=True)
        ]
        for group in batch.groups(asked):
            batch.prefill_together([asked[place] for place in group])
        active += begun
        batch.decode_arrays([line.slot for line in active], rows(talker, len(active), 0))
        for line in active:
            line.left -= 1
            if not line.left:
                batch.leave(line.slot)
        active = [line for line in active if line.left]


@pytest.mark.parametrize("at_once", [16, 64])
def test_the_second_time_nothing_is_built(talker: Talker, at_once: int) -> None:
    batch = TalkerBatch(talker, "f16", capacity=at_once)
    speak_all(batch, talker, 64, at_once)
    built, revision, movers = batch.programs_built, batch._cache.revision, dict(batch._cache._movers)
    assert revision <= 2, "memory has moved more than twice"
    assert built <= 24
    speak_all(batch, talker, 64, at_once)
    assert (batch.programs_built, batch._cache.revision) == (built, revision)
    assert batch._cache._movers == movers
    batch.clear()
    assert (batch._cache.slots, batch._cache.capacity, len(batch._programs)) == (0, 0, 0)


def test_a_device_too_full_to_tell_its_memory(talker: Talker, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(self: Engine, memory: int) -> bool:
        raise EngineError("device 'cuda0' does not answer")

    monkeypatch.setattr(Engine, "has_to_spare", no_answer)
    batch = TalkerBatch(talker, "f16", capacity=64)
    slots = [batch.join() for _ in range(5)]
    steps = batch.prefill_together([Prefill(slot, rows(talker, 9, 1)) for slot in slots])
    assert (len(steps), batch._cache.slots) == (5, 8)


def test_room_that_the_device_cannot_spare(talker: Talker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "has_to_spare", lambda self, memory: False)
    batch = TalkerBatch(talker, "f16", capacity=64)
    slots = [batch.join() for _ in range(5)]
    batch.prefill_together([Prefill(slot, rows(talker, 9, 1)) for slot in slots])
    assert batch._cache.slots == 8
    monkeypatch.setattr(Engine, "has_to_spare", lambda self, memory: True)
    batch = TalkerBatch(talker, "f16", capacity=12)
    slots = [batch.join() for _ in range(5)]
    batch.prefill_together([Prefill(slot, rows(talker, 9, 1)) for slot in slots])
    assert batch._cache.slots == 12


def test_memory_that_is_refused_is_asked_for_in_part(talker: Talker, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Engine.state

    def small(self: Engine, layout: Any) -> Any:
        if any(len(shape) == 4 and shape[3] > 8 for shape, _ in layout.values()):
            raise EngineError("not enough memory")
        return original(self, layout)

    monkeypatch.setattr(Engine, "state", small)
    batch = TalkerBatch(talker, "f16", capacity=64)
    slots = [batch.join() for _ in range(5)]
    steps = batch.prefill_together([Prefill(slot, rows(talker, 9, 1)) for slot in slots])
    assert (len(steps), batch._cache.slots) == (5, 8)


def test_a_scheduler_keeps_all_until_it_closes(model: QwenTTS, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared: list[tuple[int, int]] = []
    original = TalkerBatch.clear

    def seen(self: TalkerBatch) -> None:
        before = self._cache.slots
        original(self)
        cleared.append((before, self._cache.slots))

    monkeypatch.setattr(TalkerBatch, "clear", seen)
    texts = ["Hello there.", "One.", "Why?", "A somewhat longer sentence."]
    options: dict[str, Any] = {"speaker": "vivian", "seed": 3, "max_frames": 12}
    expected = [model.speak(text, **options).codes for text in texts]
    with model.scheduler(4) as scheduler:
        for _ in range(2):
            streams = [scheduler.submit(text, **options) for text in texts]
            for stream, codes in zip(streams, expected, strict=True):
                assert sum(len(chunk.samples) for chunk in stream)
                assert stream.account.codes is not None
                assert np.array_equal(np.stack(stream.account.codes), codes)
        assert not cleared
    assert len(cleared) == 1
    assert cleared[0][0] > 0
    assert cleared[0][1] == 0


def test_texts_become_rows_by_one_program(
    stock_variable: None, tiny_gguf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts.open(Engine(DEVICE, threads=1), tiny_gguf(TALKER))
    made: list[int] = []
    original = TextProjection._program

    def counted(self: TextProjection, tokens: int) -> Any:
        made.append(tokens)
        return original(self, tokens)

    monkeypatch.setattr(TextProjection, "_program", counted)
    asked = [
        PromptRequest(text)
        for text in ("Hello.", "Hello there, how are you today?", " ".join(map(chr, range(33, 126))))
    ]
    alone = [parts.prompts.build(request) for request in asked]
    broken = PromptRequest("\n")
    together = parts.prompts.build_all([*asked, broken, *asked])
    assert isinstance(together.pop(len(asked)), UsageError)
    for one, other in zip(alone * 2, together, strict=True):
        assert isinstance(other, Prompt)
        assert all(same(getattr(one, part), getattr(other, part)) for part in ("rows", "trailing", "padding"))
    assert made == [TOKENS_AT_ONCE]
