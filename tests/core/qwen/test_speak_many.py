"""Many speeches in order, and long texts whose pieces are spoken at once."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ggtts.core.errors import EngineError, UsageError
from ggtts.core.qwen.batch import FrameStage
from ggtts.core.qwen.model import QwenTTS, Speech, SpeechRequest
from ggtts.core.qwen.requests import Sampling
from ggtts.core.speech.lockstep import THREAD_NAME
from ggtts.core.speech.observer import Observer
from support import comparing
from support.patience import PATIENCE, eventually
from support.watching import Recorder

Open = Callable[..., QwenTTS]

OPTIONS: dict[str, Any] = {"speaker": "vivian", "seed": 5}
FIRST = "Hello, world! The weather is nice today."
SECOND = "Tomorrow it may well rain again."
THIRD = "Nobody knows about the day after."
STORY = f"{FIRST} {SECOND}\n\n{THIRD} {SECOND} {THIRD}"


@pytest.fixture(scope="module")
def model(open_tiny: Open) -> QwenTTS:
    return open_tiny()


@pytest.fixture(scope="module")
def base(open_tiny: Open) -> QwenTTS:
    return open_tiny("Qwen3-TTS-12Hz-0.6B-Base")


def request(index: int) -> SpeechRequest:
    """Requests of very different lengths."""
    frames = (25, 1, 2, 14, 3)[index % 5]
    return SpeechRequest(f"Text {index}.", speaker="ryan", sampling=Sampling(seed=index), max_frames=frames)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def same(one: Speech, other: Speech) -> bool:
    return (
        np.array_equal(one.codes, other.codes)
        and comparing.same(one.samples, other.samples)
        and (one.seed, one.stop, one.frames) == (other.seed, other.stop, other.frames)
    )


@pytest.mark.parametrize("parallel", [1, 3, 8])
def test_speeches_in_order(model: QwenTTS, parallel: int) -> None:
    speeches = list(model.speak_many(map(request, range(12)), parallel=parallel))
    assert len(speeches) == 12
    for index, speech in enumerate(speeches):
        assert same(speech, model.speak(request(index)))
    assert threads() == []


def test_texts_with_options_and_requests(model: QwenTTS) -> None:
    resolved = model.resolve("Three.", speaker="ryan", seed=3, max_frames=4)
    speeches = list(
        model.speak_many(["One.", request(1), resolved], speaker="vivian", seed=8, max_frames=3, parallel=2)
    )
    assert same(speeches[0], model.speak("One.", speaker="vivian", seed=8, max_frames=3))
    assert same(speeches[1], model.speak(request(1)))
    assert same(speeches[2], model.speak(resolved))


def test_requests_are_taken_when_there_is_a_place(model: QwenTTS) -> None:
    taken: list[int] = []

    def endless() -> Iterator[SpeechRequest]:
        index = 0
        while True:
            taken.append(index)
            yield request(index)
            index += 1

    with model.speak_many(endless(), parallel=2) as speeches:
        assert taken == []
        assert same(next(speeches), model.speak(request(0)))
        assert 2 <= len(taken) <= 2 + 4 * 2
        assert same(next(speeches), model.speak(request(1)))
    assert threads() == []
    with pytest.raises(EngineError, match="closed"):
        list(speeches)


def test_nothing_to_say(model: QwenTTS) -> None:
    assert list(model.speak_many([])) == []
    with pytest.raises(UsageError, match="0 requests"):
        model.speak_many(["Hi."], parallel=0)


def test_failures_are_raised_in_turn(model: QwenTTS) -> None:
    requests = [request(0), "", request(2), SpeechRequest("Hi.", speaker="nobody"), request(4)]
    speeches = model.speak_many(requests, parallel=3, **OPTIONS)
    assert same(next(speeches), model.speak(request(0)))
    with pytest.raises(UsageError, match="nothing to say"):
        next(speeches)
    assert same(next(speeches), model.speak(request(2)))
    with pytest.raises(UsageError, match="nobody"):
        next(speeches)
    assert same(next(speeches), model.speak(request(4)))
    assert list(speeches) == []


def test_requests_that_cannot_be_read(model: QwenTTS) -> None:
    def broken() -> Iterator[SpeechRequest]:
        yield request(1)
        raise OSError("the disk is gone")

    speeches = model.speak_many(broken())
    assert same(next(speeches), model.speak(request(1)))
    with pytest.raises(OSError, match="disk"):
        next(speeches)
    assert list(speeches) == []


def test_speeches_that_are_forgotten(model: QwenTTS) -> None:
    next(model.speak_many(map(request, range(5)), parallel=2))
    gc.collect()
    assert eventually(lambda: threads() == []), "at once, unless that thread collects itself"


def test_who_watches_each(model: QwenTTS) -> None:
    watching: dict[int, Recorder] = {}

    def observe(number: int) -> Observer:
        watching[number] = Recorder(stages=False)
        return watching[number]

    speeches = list(model.speak_many([request(0), request(1)], observe=observe))
    assert [watching[number].frames[-1] for number in (1, 2)] == [speech.frames for speech in speeches]


@pytest.mark.parametrize("parallel", [2, 4, 16])
@pytest.mark.parametrize("name", ["Qwen3-TTS-12Hz-0.6B-CustomVoice", "Qwen3-TTS-12Hz-0.6B-Base"])
def test_pieces_at_once_sound_as_in_turn(open_tiny: Open, name: str, parallel: int) -> None:
    model = open_tiny(name)
    options: dict[str, Any] = {"split": 7, "seed": 3, "max_frames": 40}
    if "Custom" in name:
        options["speaker"] = "vivian"
    expected = model.speak(STORY, **options)
    assert same(model.speak(STORY, parallel=parallel, **options), expected)
    with model.stream(STORY, parallel=parallel, **options) as stream:
        chunks = list(stream)
    assert comparing.same(np.concatenate([chunk.samples for chunk in chunks]), expected.samples)
    assert (stream.frames, stream.stop) == (expected.frames, expected.stop)
    assert sum(chunk.frames for chunk in chunks) == expected.frames
    assert chunks[0].frames == 1, "the first leaves after the first frame"
    assert sorted(chunk.piece for chunk in chunks) == [chunk.piece for chunk in chunks]
    times = stream.timings
    assert 0 < times.first_frame_seconds <= times.first_audio_seconds < times.total_seconds
    assert threads() == []


def test_a_made_up_voice_is_made_up_first(base: QwenTTS, monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []
    original = FrameStage.run

    def counted(self: FrameStage, arguments: Any) -> Any:
        made = original(self, arguments)
        together.append(sum(asked.line.stop != "end_of_speech" for asked in arguments))
        return made

    monkeypatch.setattr(FrameStage, "run", counted)
    speech = base.speak(STORY, split=7, seed=3, max_frames=40, parallel=8)
    first = base.speak(FIRST, split=False, seed=3, max_frames=40)
    assert together[: first.frames] == [1] * first.frames
    # On a card other codes may be drawn, and a first piece that is cut off is no voice for the others.
    assert max(together) > 1 or first.stop == "max_frames"
    assert sum(together) == speech.frames


def test_first_pieces_that_are_cut_off_are_no_voice(base: QwenTTS) -> None:
    options: dict[str, Any] = {"split": 7, "seed": 3, "max_frames": 2}
    assert same(base.speak(STORY, parallel=4, **options), base.speak(STORY, **options))


def test_progress_is_told_in_order(model: QwenTTS) -> None:
    options = {**OPTIONS, "split": 7, "max_frames": 6}
    in_turn, at_once = Recorder(stages=False), Recorder(stages=False)
    model.speak(STORY, observer=in_turn, **options)
    model.speak(STORY, observer=at_once, parallel=4, **options)
    assert (at_once.pieces, at_once.frames) == (in_turn.pieces, in_turn.frames)


def test_stages_are_noted_piece_by_piece(model: QwenTTS) -> None:
    options = {**OPTIONS, "split": 7, "max_frames": 3}
    in_turn, at_once = Recorder(), Recorder()
    model.speak(STORY, observer=in_turn, **options)
    model.speak(STORY, observer=at_once, parallel=4, **options)
    assert at_once.stages.keys() == in_turn.stages.keys()
    assert all(at_once.stages[piece].keys() == in_turn.stages[piece].keys() for piece in in_turn.stages)


def test_closing_in_the_middle(model: QwenTTS) -> None:
    options = {**OPTIONS, "split": 7, "max_frames": 500, "guard": False}
    with model.stream(STORY, parallel=3, **options) as stream:
        next(stream)
        next(stream)
    assert (threads(), list(stream), stream.stop) == ([], [], None)
    assert model.speak("Hi.", **OPTIONS, max_frames=2).frames == 2


def test_another_thread_may_close(model: QwenTTS) -> None:
    options = {**OPTIONS, "split": 7, "max_frames": 100_000, "guard": False}
    stream = model.stream(STORY, parallel=3, **options)
    next(stream)
    closing = threading.Thread(target=stream.close)
    closing.start()
    list(stream)
    closing.join(PATIENCE)
    assert (threads(), stream.stop) == ([], None)


def test_a_failure_of_a_piece(model: QwenTTS, monkeypatch: pytest.MonkeyPatch) -> None:
    original, runs = FrameStage.run, [0]

    def failing(self: FrameStage, arguments: Any) -> Any:
        runs[0] += 1
        if runs[0] == 9:
            raise EngineError("the device is gone")
        return original(self, arguments)

    monkeypatch.setattr(FrameStage, "run", failing)
    with pytest.raises(EngineError, match="the device is gone"):
        model.speak(STORY, split=7, parallel=4, **OPTIONS)
    assert threads() == []


def test_how_many_at_once(model: QwenTTS) -> None:
    for parallel in (0, -1):
        with pytest.raises(UsageError, match=f"{parallel} pieces cannot be spoken at once"):
            model.stream("Hi.", parallel=parallel, **OPTIONS)
