"""The codec beside the talker: the same samples, no later first chunk, bounded, and a clean end whatever happens."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggtts.core.errors import EngineError
from ggtts.core.qwen.batch import FrameStage
from ggtts.core.qwen.cadence import STREAM_FRAMES
from ggtts.core.qwen.codec import CodecBatch, DecoderStream
from ggtts.core.qwen.codec_lines import BESIDE_THREAD_NAME
from ggtts.core.qwen.decoding import MOST_AHEAD
from ggtts.core.qwen.demo import demo_paths
from ggtts.core.qwen.model import QwenTTS, Voice
from ggtts.core.speech.background import THREAD_NAME
from ggtts.core.speech.observer import Observer
from support.comparing import same
from support.device import DEVICE
from support.memory import let_go
from support.patience import PATIENCE, eventually
from support.watching import Recorder

Open = Callable[..., QwenTTS]
LINES = [
    ("Hello there.", 20),
    ("One.", 3),
    ("A somewhat longer sentence.", 61),
    ("Why?", 1),
    ("Two, three.", 33),
]
LONG: dict[str, Any] = {"speaker": "ryan", "seed": 3, "max_frames": 120, "guard": False}


@pytest.fixture(scope="module", params=[1, 2, 4])
def model(open_tiny: Open, request: pytest.FixtureRequest) -> Iterator[QwenTTS]:
    """One that overlaps although there are few threads, or no cores for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 8)
        yield open_tiny(overlap=True if request.param < 4 else None, threads=request.param)


@pytest.fixture(scope="module")
def plain(open_tiny: Open) -> QwenTTS:
    return open_tiny(overlap=False)


def options(number: int) -> dict[str, Any]:
    return {"speaker": "ryan", "seed": number, "max_frames": LINES[number][1], "guard": False}


def samples(chunks: Any) -> np.ndarray:
    return np.concatenate([chunk.samples for chunk in chunks])


def helpers() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith((BESIDE_THREAD_NAME, THREAD_NAME))]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Lets no thread beside decode until it is set."""
    opened = threading.Event()
    alone, together = DecoderStream.__call__, CodecBatch.decode

    def wait() -> None:
        if threading.current_thread().name.startswith((BESIDE_THREAD_NAME, THREAD_NAME)):
            assert opened.wait(PATIENCE)

    def decode_alone(self: DecoderStream, codes: Any) -> Any:
        wait()
        return alone(self, codes)

    def decode_together(self: CodecBatch, *arguments: Any) -> Any:
        wait()
        return together(self, *arguments)

    monkeypatch.setattr(DecoderStream, "__call__", decode_alone)
    monkeypatch.setattr(CodecBatch, "decode", decode_together)
    yield opened
    opened.set()


def test_on_few_threads_nothing_overlaps_by_itself(open_tiny: Open) -> None:
    if DEVICE == "cpu":
        assert open_tiny(threads=2)._beside is None


@pytest.mark.parametrize("number", range(len(LINES)))
def test_the_same_samples(model: QwenTTS, plain: QwenTTS, number: int) -> None:
    text, asked = LINES[number][0], options(number)
    expected = plain.speak(text, **asked)
    assert same(model.speak(text, **asked).samples, expected.samples)
    assert same(model.speak(text, codec_chunk_frames=5, **asked).samples, expected.samples)
    assert same(model.speak(text, codec_chunk_frames=300, **asked).samples, expected.samples)
    with model.stream(text, **asked) as stream, plain.stream(text, **asked) as other:
        chunks, others = list(stream), list(other)
    assert same(samples(chunks), expected.samples)
    assert [chunk.frames for chunk in chunks] == [chunk.frames for chunk in others]
    assert helpers() == []


def test_who_wants_large_chunks_does_not_keep_the_codec_waiting(model: QwenTTS, plain: QwenTTS) -> None:
    """As a command asks for them that writes a file, for which nobody waits."""
    asked = {**LONG, "stream_frames": 300}
    with model.stream("Some words.", **asked) as stream, plain.stream("Some words.", **asked) as other:
        chunks, others = list(stream), list(other)
    assert max(chunk.frames for chunk in others) > 16 == max(chunk.frames for chunk in chunks)
    assert same(samples(chunks), samples(others))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_same_samples_in_batches(model: QwenTTS, plain: QwenTTS, size: int) -> None:
    expected = [plain.speak(text, **options(number)).samples for number, (text, _) in enumerate(LINES)]
    with model.scheduler(size) as scheduler:
        streams = [scheduler.submit(text, **options(number)) for number, (text, _) in enumerate(LINES)]
        assert all(same(samples(stream), wanted) for stream, wanted in zip(streams, expected, strict=True))
    assert helpers() == []


def test_the_same_with_a_reference_and_in_pieces(open_tiny: Open) -> None:
    bases = [open_tiny("Qwen3-TTS-12Hz-0.6B-Base", overlap=overlap, threads=2) for overlap in (True, False)]
    voice = Voice(np.ones(bases[0].info.talker.width, np.float32), np.ones((40, 16), np.int32), "Some text.")
    story = "Hello, world! The weather is nice today. Tomorrow it may well rain again."
    for asked in ({"voice": voice}, {"split": 7}):
        spoken = [base.speak(story, seed=3, max_frames=40, **asked) for base in bases]
        assert same(spoken[0].samples, spoken[1].samples)
        beside = bases[0].speak(story, seed=3, max_frames=40, parallel=3, **asked)
        assert same(beside.samples, spoken[1].samples)
        with bases[0].scheduler(2) as scheduler:
            assert same(samples(scheduler.submit(story, seed=3, max_frames=40, **asked)), spoken[1].samples)


def test_stages_are_the_same(model: QwenTTS, plain: QwenTTS) -> None:
    one, other = Recorder(), Recorder()
    model.speak("Hello.", observer=one, **options(0))
    plain.speak("Hello.", observer=other, **options(0))
    assert one.stages.keys() == other.stages.keys()
    for piece, stages in one.stages.items():
        assert all(same(values, other.stages[piece][name]) for name, values in stages.items())


class Counter(Observer):
    """Counts frames."""

    frames = 0

    def frame(self, frames: int) -> None:
        self.frames += 1


def test_frames_are_made_while_a_chunk_is_decoded(model: QwenTTS, gate: threading.Event) -> None:
    counter = Counter()
    with model.stream("Hello.", observer=counter, **LONG) as stream:
        assert next(stream).frames == 1
        assert counter.frames == 1, "the first chunk waits for no other frame"
        reader = threading.Thread(target=lambda: next(stream))
        reader.start()
        assert eventually(lambda: counter.frames > MOST_AHEAD)
        assert not threading.Event().wait(0.1)
        assert counter.frames <= 1 + MOST_AHEAD + 4, "a slow codec slows generation down"
        gate.set()
        reader.join(PATIENCE)


@pytest.mark.cpu_only
def test_a_batch_is_bounded_and_its_first_chunks_wait_for_nothing(
    model: QwenTTS, gate: threading.Event
) -> None:
    counters = [Counter(), Counter()]
    with model.scheduler(2) as scheduler:
        streams = [scheduler.submit("Hello.", observer=counter, ahead=None, **LONG) for counter in counters]
        assert eventually(lambda: all(counter.frames == 1 for counter in counters))
        assert not threading.Event().wait(0.1)
        assert [counter.frames for counter in counters] == [1, 1]
        gate.set()
        assert [next(stream).frames for stream in streams] == [1, 1]
        gate.clear()
        assert eventually(lambda: all(counter.frames > MOST_AHEAD // 2 for counter in counters))
        assert not threading.Event().wait(0.2)
        gate.set()
        for stream in streams:
            assert sum(chunk.frames for chunk in stream) == 119


@pytest.fixture
def elsewhere(tiny_gguf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[QwenTTS]:
    """One whose codec takes nothing from the talker, as on a GPU."""
    monkeypatch.setenv("GGTTS_STOCK", "1")
    files = tiny_gguf("Qwen3-TTS-12Hz-0.6B-CustomVoice"), tiny_gguf()
    with QwenTTS.open(*files, device=DEVICE, threads=1, overlap=True) as opened:
        yield opened


def test_elsewhere_no_frame_waits_for_a_chunk(
    elsewhere: QwenTTS, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4
    monkeypatch.setattr("ggtts.core.qwen.decoding.MOST_AHEAD", most)
    counters = [Counter(), Counter()]
    with elsewhere.scheduler(2) as scheduler:
        streams = [scheduler.submit("Hello.", observer=counter, ahead=None, **LONG) for counter in counters]
        assert eventually(lambda: all(counter.frames > most for counter in counters))
        assert not threading.Event().wait(0.1)
        made = [counter.frames for counter in counters]
        assert max(made) <= most + STREAM_FRAMES, "but not for ever"
        gate.set()
        for stream in streams:
            chunks = [chunk.frames for chunk in stream]
            assert chunks[:3] == [1, 2, 4]
            assert sum(chunks) == 120


def test_elsewhere_chunks_are_heard_while_frames_are_made(
    elsewhere: QwenTTS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first chunk is there although its scheduler is in the middle of the second frame."""
    made, go_on = threading.Event(), threading.Event()
    run = FrameStage.run
    steps: list[Any] = []

    def held(self: FrameStage, arguments: Any) -> Any:
        steps.append(arguments)
        if len(steps) == 2:
            made.set()
            assert go_on.wait(PATIENCE)
        return run(self, arguments)

    monkeypatch.setattr(FrameStage, "run", held)
    with elsewhere.scheduler(2) as scheduler:
        stream = scheduler.submit("Hello.", **LONG)
        assert made.wait(PATIENCE)
        assert next(stream).frames == 1
        go_on.set()
        assert sum(chunk.frames for chunk in stream) == 119


@pytest.mark.parametrize("lone", [True, False])
def test_closing_while_the_codec_works(model: QwenTTS, gate: threading.Event, lone: bool) -> None:
    scheduler = model.scheduler(2)
    begin = model.stream if lone else scheduler.submit
    stream = begin("Hello.", **LONG)
    if not lone:
        gate.set()
    next(stream)
    gate.clear()
    reader = threading.Thread(target=lambda: list(stream))
    reader.start()
    assert eventually(lambda: stream.frames > 8)
    closer = threading.Thread(target=stream.close)
    closer.start()
    assert not threading.Event().wait(0.05)
    gate.set()
    closer.join(PATIENCE)
    reader.join(PATIENCE)
    assert not closer.is_alive()
    assert not reader.is_alive()
    scheduler.close()
    assert helpers() == []
    assert same(model.speak("Why?", **options(3)).samples, model.speak("Why?", **options(3)).samples)


@pytest.mark.parametrize("lone", [True, False])
def test_a_failing_codec_fails_for_its_reader(
    model: QwenTTS, plain: QwenTTS, lone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = model.speak("Bad.", **LONG).codes[20]
    alone, together = DecoderStream.__call__, CodecBatch.decode
    gone = EngineError("the codec is gone")

    def hits(codes: np.ndarray) -> bool:
        return bool((codes == bad).all(axis=1).any())

    def failing_alone(self: DecoderStream, codes: np.ndarray) -> np.ndarray:
        if hits(codes):
            raise gone
        return alone(self, codes)

    def failing_together(self: CodecBatch, streams: Any, codes: Any) -> Any:
        found = together(self, streams, [np.zeros_like(one) if hits(one) else one for one in codes])
        return [gone if hits(one) else heard for one, heard in zip(codes, found, strict=True)]

    monkeypatch.setattr(DecoderStream, "__call__", failing_alone)
    monkeypatch.setattr(CodecBatch, "decode", failing_together)
    with model.scheduler(2) as scheduler:
        begin = model.stream if lone else scheduler.submit
        good = scheduler.submit("Hello there.", **options(0))
        stream = begin("Bad.", **LONG)
        heard: list[int] = []
        with pytest.raises(EngineError, match="the codec is gone"):
            heard.extend(chunk.frames for chunk in stream)
        assert 1 <= sum(heard) <= 20
        stream.close()
        assert same(samples(good), plain.speak("Hello there.", **options(0)).samples)
    assert helpers() == []


def test_two_streams_at_once_on_two_threads(model: QwenTTS, plain: QwenTTS) -> None:
    spoken: dict[int, np.ndarray] = {}

    def speak(number: int) -> None:
        spoken[number] = samples(model.stream(LINES[number][0], **options(number)))

    threads = [threading.Thread(target=speak, args=(number,)) for number in (0, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for number in (0, 2):
        assert same(spoken[number], plain.speak(LINES[number][0], **options(number)).samples)


def test_threads_are_shared_while_both_compute(model: QwenTTS, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = [0]

    def count(change: int) -> Callable[[], None]:
        return lambda: shared.__setitem__(0, shared[0] + change)

    monkeypatch.setattr(model._beside, "begin_sharing", count(1))
    monkeypatch.setattr(model._beside, "end_sharing", count(-1))
    model.speak("Hello there.", **options(0))
    assert shared == [0]
    with model.stream("Hello there.", **LONG) as stream:
        for chunk in stream:
            if chunk.frames == STREAM_FRAMES:
                break
        assert shared == [1]
    assert shared == [0]
    with model.scheduler(2) as scheduler:
        spoken = scheduler.submit("Hello there.", **options(0))
        samples(spoken)
        assert eventually(lambda: shared == [0]), "nobody computes while nothing is asked"
    assert shared == [0]


def test_a_forgotten_stream_and_model_are_gone_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        model = QwenTTS.open(*demo_paths(), device=DEVICE, threads=2, overlap=True)
        asked = {"speaker": "eva", "seed": 1, "max_frames": 12, "guard": False}
        stream = model.stream("Hello there.", **asked)
        next(stream)
        next(stream)
        with model.scheduler(2) as scheduler:
            samples(scheduler.submit("Hello there.", **asked))
        model.speak("Hello there.", **asked)
        parts = [weakref.ref(part) for part in (model, model._equipment.decoder, model._equipment.sessions)]
        del stream, scheduler, model
        let_go()
        assert [part() for part in parts] == [None] * len(parts)
        assert helpers() == []
    finally:
        gc.enable()
