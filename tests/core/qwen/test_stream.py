"""Speech as a stream: the same samples as at once, chunk by chunk, and an end at any time."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ggtts.core.engine import Engine
from ggtts.core.errors import EngineError, UsageError
from ggtts.core.nn.streaming import StreamState
from ggtts.core.qwen.cadence import STREAM_FRAMES
from ggtts.core.qwen.generation import Listen, Utterance
from ggtts.core.qwen.model import AudioChunk, QwenTTS
from ggtts.core.qwen.talker import Talker
from ggtts.core.speech import timings
from ggtts.core.speech.observer import Observer
from support.comparing import same
from support.device import DEVICE, ON_CPU
from support.patience import PATIENCE
from support.watching import Recorder

TEXT = "Hello there."
OPTIONS: dict[str, Any] = {"speaker": "vivian", "seed": 11, "max_frames": 20}


@pytest.fixture(scope="module")
def model(open_tiny: Callable[..., QwenTTS]) -> QwenTTS:
    return open_tiny(overlap=False)


def joined(chunks: list[AudioChunk]) -> np.ndarray:
    return np.concatenate([chunk.samples for chunk in chunks])


def test_chunks_grow_up_to_the_cap(model: QwenTTS) -> None:
    with model.stream(TEXT, stream_frames=8, **OPTIONS) as stream:
        chunks = list(stream)
    assert [chunk.frames for chunk in chunks] == [1, 2, 4, 8, 5]
    assert [len(chunk.samples) for chunk in chunks] == [1920 * chunk.frames for chunk in chunks]
    assert {(chunk.piece, chunk.pieces) for chunk in chunks} == {(1, 1)}
    assert all(chunk.samples.dtype == np.float32 for chunk in chunks)


def test_the_usual_cap(model: QwenTTS) -> None:
    frames = [chunk.frames for chunk in model.stream(TEXT, **OPTIONS)]
    assert (max(frames), sum(frames)) == (STREAM_FRAMES, 20)


def test_the_first_chunk_leaves_after_the_first_frame(model: QwenTTS) -> None:
    watching = Recorder(stages=False)
    with model.stream(TEXT, observer=watching, **OPTIONS) as stream:
        assert watching.frames == []
        assert next(stream).frames == 1
        assert (watching.frames, stream.frames, stream.stop) == ([1], 1, None)
        next(stream)
        assert watching.frames == [1, 2, 3]


def test_what_a_stream_tells(model: QwenTTS) -> None:
    with model.stream(TEXT, **OPTIONS) as stream:
        assert (stream.request.seed, stream.request.speaker, stream.sample_rate) == (11, "vivian", 24000)
        list(stream)
    assert (stream.stop, stream.frames) == ("max_frames", 20)
    times = stream.timings
    assert 0 < times.first_frame_seconds < times.first_audio_seconds < times.total_seconds
    assert times.codec_seconds > 0
    assert times.host_seconds >= 0


def test_the_time_of_the_listener_does_not_count(model: QwenTTS, monkeypatch: pytest.MonkeyPatch) -> None:
    listened = 0.0
    monkeypatch.setattr(timings, "perf_counter", lambda: perf_counter() + listened)
    with model.stream(TEXT, **OPTIONS) as stream:
        for _ in stream:
            listened += 1e6
        frozen = stream.timings
    assert 0 < frozen.total_seconds < 1e6
    assert stream.timings == frozen


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**64 - 1),
    frames=st.integers(1, 24),
    stream_frames=st.integers(1, 24),
    chunk=st.integers(1, 24),
)
def test_a_stream_equals_speaking_at_once(
    model: QwenTTS, seed: int, frames: int, stream_frames: int, chunk: int
) -> None:
    options = {**OPTIONS, "seed": seed, "max_frames": frames}
    speech = model.speak(TEXT, codec_chunk_frames=chunk, **options)
    with model.stream(TEXT, stream_frames=stream_frames, **options) as stream:
        chunks = list(stream)
    assert same(joined(chunks), speech.samples)
    assert same(speech.samples, model.decode(speech.codes))
    assert sum(chunk.frames for chunk in chunks) == speech.frames == stream.frames
    assert stream.stop == speech.stop


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=st.integers(1, 40), stream_frames=st.integers(1, 40), seed=st.integers(0, 1000))
def test_random_codes_stream_as_they_decode(
    model: QwenTTS, frames: int, stream_frames: int, seed: int
) -> None:
    codes = np.random.default_rng(seed).integers(0, 64, (frames, 16)).astype(np.int32)

    left = list(codes)

    async def random_frames(self: Utterance, listen: Listen) -> None:
        while left and not listen(left.pop(0)):
            pass
        self.stop = None if left else "end_of_speech"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Utterance, "go_on", random_frames)
        chunks = list(model.stream(TEXT, stream_frames=stream_frames, speaker="vivian"))
    assert same(joined(chunks), model.decode(codes))


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_of_the_engine_change_nothing(
    open_tiny: Callable[..., QwenTTS], model: QwenTTS, threads: int
) -> None:
    chunks = list(open_tiny(threads=threads).stream(TEXT, **OPTIONS))
    assert same(joined(chunks), model.speak(TEXT, **OPTIONS).samples)


def test_streams_in_threads_and_side_by_side(model: QwenTTS) -> None:
    texts = ["One.", "Two and three.", "Four, five, six."]
    alone = [model.speak(text, **OPTIONS).samples for text in texts]
    streams = [model.stream(text, **OPTIONS) for text in texts]
    turns = [list(chunks) for chunks in zip(*streams, strict=True)]  # one chunk of each in turn
    for index, samples in enumerate(alone):
        assert same(joined([turn[index] for turn in turns]), samples)
    with ThreadPoolExecutor(3) as pool:
        spoken = list(pool.map(lambda text: joined(list(model.stream(text, **OPTIONS))), texts * 3))
    for index, samples in enumerate(spoken):
        assert same(samples, alone[index % 3])


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each session that is made."""
    made: list[None] = []
    original = Talker.session

    def counted(self: Talker, *arguments: Any) -> Any:
        made.append(None)
        return original(self, *arguments)

    monkeypatch.setattr(Talker, "session", counted)
    return made


def test_closing_ends_the_speech_and_frees_its_session(model: QwenTTS, sessions: list[None]) -> None:
    model.close()
    watching = Recorder(stages=False)
    stream = model.stream(TEXT, observer=watching, **OPTIONS)
    next(stream)
    stream.close()
    stream.close()
    assert list(stream) == []
    assert (watching.frames, stream.stop) == ([1], None)
    speech = model.speak(TEXT, **OPTIONS)
    assert len(sessions) == 1, "the session of the closed stream serves again"
    assert speech.frames == 20


def test_closing_a_model_lets_go_of_sessions_and_decoder_streams(
    model: QwenTTS, sessions: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[None] = []
    original = StreamState.__init__

    def counted(self: StreamState[Any], *arguments: Any) -> None:
        begun.append(None)
        original(self, *arguments)

    model.close()
    monkeypatch.setattr(StreamState, "__init__", counted)
    model.speak(TEXT, **OPTIONS)
    once = len(begun)  # a chain of kernels has memory of its own
    assert (len(sessions), once) == (1, 1) if ON_CPU else len(sessions) == 1
    model.speak(TEXT, **OPTIONS)
    assert (len(sessions), len(begun)) == (1, once)
    model.close()
    model.speak(TEXT, **OPTIONS)
    assert (len(sessions), len(begun)) == (2, 2 * once)


def test_a_stream_nobody_began(model: QwenTTS, sessions: list[None]) -> None:
    model.close()
    with model.stream(TEXT, **OPTIONS) as stream:
        pass
    assert (list(stream), stream.frames, sessions) == ([], 0, [])


def test_a_stream_that_is_forgotten_frees_its_session(model: QwenTTS, sessions: list[None]) -> None:
    model.close()
    for _ in range(3):
        next(model.stream(TEXT, **OPTIONS))
        gc.collect()
    assert len(sessions) == 1


def test_leaving_the_loop_closes(model: QwenTTS, sessions: list[None]) -> None:
    model.close()
    for _ in range(2):
        with model.stream(TEXT, **OPTIONS) as stream:
            for _ in stream:
                break
    assert len(sessions) == 1


@pytest.mark.parametrize("stream_frames", [1, 4, 1000])
def test_another_thread_may_close(model: QwenTTS, stream_frames: int) -> None:
    begun = threading.Event()

    class Waiting(Observer):
        def frame(self, frames: int) -> None:
            begun.set()
            assert stream.account.cancelled.wait(PATIENCE)

    options = {**OPTIONS, "max_frames": 1000, "guard": False}
    stream = model.stream(TEXT, observer=Waiting(), stream_frames=stream_frames, **options)
    with ThreadPoolExecutor(1) as pool:
        listener = pool.submit(lambda: [chunk.frames for chunk in stream])
        assert begun.wait(PATIENCE)
        stream.close()
        assert listener.result(timeout=PATIENCE) == []
    assert stream.frames == 1
    assert stream.stop is None
    assert model.speak(TEXT, **OPTIONS).frames == 20


def test_an_observer_may_close(model: QwenTTS) -> None:
    class Enough(Observer):
        def frame(self, frames: int) -> None:
            if frames == 3:
                stream.close()

    stream = model.stream(TEXT, observer=Enough(), stream_frames=1, **OPTIONS)
    assert [chunk.frames for chunk in stream] == [1, 1]
    assert (stream.stop, stream.frames) == (None, 3)


def test_a_failure_frees_the_session(
    model: QwenTTS, sessions: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    model.close()

    class Broken(Observer):
        def frame(self, frames: int) -> None:
            raise EngineError("the device is gone")

    for _ in range(2):
        with pytest.raises(EngineError, match="gone"):
            list(model.stream(TEXT, observer=Broken(), **OPTIONS))
    assert len(sessions) == 1
    assert model.speak(TEXT, **OPTIONS).frames == 20


def test_unsuitable_requests_fail_before_anything_is_asked_for(model: QwenTTS) -> None:
    with pytest.raises(UsageError, match="nobody"):
        model.stream(TEXT, speaker="nobody")
    with pytest.raises(UsageError, match="0 frames"):
        model.stream(TEXT, stream_frames=0, **OPTIONS)
    with pytest.raises(UsageError, match="-1 frames"):
        model.speak(TEXT, codec_chunk_frames=-1, **OPTIONS)


def test_seeds(model: QwenTTS) -> None:
    drawn = model.stream(TEXT, speaker="vivian", max_frames=5)
    samples = joined(list(drawn))
    again = model.stream(TEXT, speaker="vivian", max_frames=5, seed=drawn.request.seed)
    assert same(joined(list(again)), samples)


def test_an_engine_of_its_own_repeats_the_bytes(
    tiny_gguf: Callable[..., Any], open_tiny: Callable[..., QwenTTS], model: QwenTTS
) -> None:
    talker, codec = tiny_gguf("Qwen3-TTS-12Hz-0.6B-CustomVoice"), tiny_gguf()
    engine = Engine(DEVICE, threads=1)
    fresh = QwenTTS(engine, engine.weights(talker), engine.weights(codec))
    assert same(fresh.speak(TEXT, **OPTIONS).samples, model.speak(TEXT, **OPTIONS).samples)
