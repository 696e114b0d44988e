"""Steps of the talker that are begun before their host is done with the frames before: the kernel is emulated."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.engine.talker_plan import TalkerPlan
from ggtts.core.errors import EngineError
from ggtts.core.qwen.batch import FrameStage
from ggtts.core.qwen.kernel_talker import SCOPE, KernelTalker, talker_sizes
from ggtts.core.qwen.model import QwenTTS
from ggtts.core.qwen.steps_under_way import TalkerSlot
from ggtts.core.qwen.talker import Talker
from ggtts.core.qwen.talker_batch import TalkerBatch
from ggtts.core.speech.observer import Observer
from support.comparing import same
from support.data import CODEC
from support.patience import PATIENCE
from support.qwen_parts import Parts

TALKER = "Qwen3-TTS-12Hz-0.6B-CustomVoice"

pytestmark = pytest.mark.cpu_only


class SeveralOnly(KernelTalker):
    """Leaves a single position to the kernel for several, whose bits do not depend on how many there are."""

    def takes(self, position: int) -> bool:
        return False


def with_kernel(talker: Talker) -> Talker:
    """Let the steps of a talker be those of an emulated kernel."""
    sizes, theta = talker_sizes(talker._file), talker.config.rope_theta
    plan = TalkerPlan(talker._weights, SCOPE, sizes, theta, emulated=(3, 4))
    vars(talker)["_kernel"] = SeveralOnly(plan)
    return talker


class Lanes:
    """A batch of a talker, and rows for it."""

    def __init__(self, engine: Engine, path: Path) -> None:
        parts = Parts.open(engine, path)
        self.batch = TalkerBatch(with_kernel(Talker(engine.weights(path), parts.file, engine)), "f16")
        self._width = parts.file.talker.width

    def rows(self, count: int, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal((count, self._width)).astype(np.float32)

    def joined(self, seed: int) -> TalkerSlot:
        slot = self.batch.join()
        self.batch.prefill(slot, self.rows(3 + seed, seed))
        return slot


@pytest.fixture
def lanes(engine: Engine, tiny_gguf: Callable[..., Path]) -> Callable[[], Lanes]:
    return lambda: Lanes(engine, tiny_gguf(TALKER, "q8_0"))


def test_others_come_and_go_meanwhile(lanes: Callable[[], Lanes]) -> None:
    """Who leaves, and who takes the place, change nothing for those who stay."""
    one, other = lanes(), lanes()
    found, expected = [], []
    for ours, busy, heard in ((one, True, found), (other, False, expected)):
        slots = [ours.joined(seed) for seed in range(3)]
        steps = ours.batch.begin(slots, ours.rows(3, 7))
        assert steps is not None
        if not busy:
            steps.wait()
        ours.batch.leave(slots.pop(0))
        slots.insert(0, ours.joined(9))
        logits, hidden = steps.result()
        heard += [logits[1:], hidden[1:], *ours.batch.decode_arrays(slots, ours.rows(3, 8))]
    assert all(same(*pair) for pair in zip(found, expected, strict=True))


def test_memory_grows_meanwhile(lanes: Callable[[], Lanes]) -> None:
    """Positions that are under way count when room is made for more slots, and are there afterwards."""
    ours = lanes()
    slots = [ours.joined(seed) for seed in range(2)]
    steps = ours.batch.begin(slots, ours.rows(2, 5))
    slots += [ours.joined(seed) for seed in range(2, 7)]
    logits, _ = ours.batch.decode_arrays(slots, ours.rows(7, 6))
    again = lanes()
    others = [again.joined(seed) for seed in range(7)]
    again.batch.decode_arrays(others[:2], again.rows(2, 5))
    assert steps is not None
    assert same(logits, again.batch.decode_arrays(others, again.rows(7, 6))[0])


def test_steps_that_nobody_waits_for(lanes: Callable[[], Lanes]) -> None:
    ours = lanes()
    slots = [ours.joined(seed) for seed in range(2)]
    ours.batch.begin(slots, ours.rows(2, 5))
    for slot in slots:
        ours.batch.leave(slot)
    del ours
    gc.collect()


def test_a_failure_belongs_to_the_step(lanes: Callable[[], Lanes], monkeypatch: pytest.MonkeyPatch) -> None:
    """And not to who begins meanwhile."""
    ours = lanes()
    slots = [ours.joined(seed) for seed in range(2)]

    class Failing:
        def result(self) -> None:
            raise EngineError("the device fell off the bus")

    monkeypatch.setattr(SeveralOnly, "begin_together", lambda *_: Failing())
    steps = ours.batch.begin(slots, ours.rows(2, 5))
    ours.joined(2)
    assert steps is not None
    with pytest.raises(EngineError, match="fell off the bus"):
        steps.result()


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("Hello there.", {"speaker": "vivian", "seed": 1, "max_frames": 14}),
    ("One.", {"speaker": "ryan", "seed": 2, "max_frames": 6}),
    ("A somewhat longer sentence.", {"speaker": "vivian", "seed": 3, "max_frames": 9}),
    ("Why?", {"speaker": "ryan", "seed": 7, "max_frames": 1}),
    ("Hello again.", {"speaker": "ryan", "seed": 5, "max_frames": 12, "top_k": 5}),
]


@pytest.fixture
def model(tiny_gguf: Callable[..., Path]) -> Iterator[QwenTTS]:
    with QwenTTS.open(tiny_gguf(TALKER, "q8_0"), tiny_gguf(CODEC), device="cpu", threads=1) as model:
        with_kernel(model._sessions._talker)
        yield model


class Gathering(Observer):
    """Lets the first speech begin when all were asked for."""

    def __init__(self) -> None:
        self.complete = threading.Event()

    def piece(self, number: int, count: int) -> None:
        assert self.complete.wait(PATIENCE)


def said(model: QwenTTS, places: int, ahead: int | None = None) -> list[tuple[np.ndarray, int, str | None]]:
    """Speak all requests, so many at a time; `ahead` lets them pause when so many chunks are not read."""
    gathering = Gathering()
    with model.scheduler(places) as scheduler:
        streams = [
            scheduler.submit(text, ahead=ahead, observer=gathering, **options) for text, options in REQUESTS
        ]
        gathering.complete.set()
        heard = [np.concatenate([chunk.samples for chunk in stream]) for stream in streams]
    return [(samples, stream.frames, stream.stop) for samples, stream in zip(heard, streams, strict=True)]


@pytest.mark.parametrize("ahead", [None, 2])
def test_speeches_hear_the_same(model: QwenTTS, monkeypatch: pytest.MonkeyPatch, ahead: int | None) -> None:
    """Together, with steps under way, each says what it says by itself: who ends, joins and pauses meanwhile, too."""
    begun = []
    begin_next = FrameStage._begin_next

    def counted(stage: FrameStage, *arguments: Any) -> None:
        begin_next(stage, *arguments)
        begun.append(stage._ahead is not None)

    monkeypatch.setattr(FrameStage, "_begin_next", counted)
    alone = said(model, 1)
    assert not any(begun)
    together = said(model, 3, ahead)
    assert any(begun)
    for (samples, *rest), (expected, *wanted) in zip(together, alone, strict=True):
        assert same(samples, expected)
        assert rest == wanted
