"""Many requests at once: each says what it says alone, whoever joins and leaves."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts.core.engine import Engine
from ggtts.core.errors import EngineError, UsageError
from ggtts.core.formats.dump import read_dump
from ggtts.core.nn import kv_cache, slot_cache
from ggtts.core.nn.attention import FLASH_HEAD_SIZES
from ggtts.core.qwen import talker_batch
from ggtts.core.qwen.batch import FrameStage
from ggtts.core.qwen.cadence import STREAM_FRAMES, UNHEARD_FRAMES
from ggtts.core.qwen.codec_stage import CodecStage, Prime, is_wide
from ggtts.core.qwen.demo import demo_paths
from ggtts.core.qwen.frames import FrameSampler
from ggtts.core.qwen.model import QwenTTS, SpeechStream, Voice
from ggtts.core.qwen.talker_batch import TalkerBatch
from ggtts.core.speech.dump import StageDump
from ggtts.core.speech.lockstep import THREAD_NAME
from ggtts.core.speech.observer import Observer
from ggtts.core.speech.scheduler import Occupancy
from support.comparing import deviation, same
from support.data import DATA
from support.device import DEVICE, ON_CPU
from support.memory import let_go
from support.patience import PATIENCE, eventually
from support.qwen_parts import Parts
from support.tolerances import HALF_PRECISION_CACHE
from support.watching import Recorder

Open = Callable[..., QwenTTS]

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("Hello there.", {"speaker": "vivian", "seed": 1, "max_frames": 20}),
    ("One.", {"speaker": "ryan", "seed": 2, "max_frames": 3}),
    (
        "A somewhat longer sentence, which takes longer.",
        {"speaker": "vivian", "greedy": True, "max_frames": 9},
    ),
    ("你好。", {"speaker": "vivian", "language": "chinese", "seed": 4, "max_frames": 12}),
    ("Guten Tag!", {"speaker": "ryan", "language": "german", "seed": 5, "max_frames": 1}),
    ("Hello there.", {"speaker": "vivian", "seed": 6, "max_frames": 30, "temperature": 1.3, "top_k": 5}),
    ("Why?", {"speaker": "ryan", "seed": 7, "max_frames": 16, "streamed_text": False, "guard": False}),
]


@dataclass(frozen=True)
class Said:
    """What came of a request."""

    samples: np.ndarray
    codes: np.ndarray
    stop: str | None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Said)
            and self.stop == other.stop
            and np.array_equal(self.codes, other.codes)
            and same(self.samples, other.samples)
        )


def read(stream: SpeechStream[Any]) -> Said:
    """Read a stream to its end."""
    chunks = [chunk.samples for chunk in stream]
    codes = stream.account.codes
    assert codes is not None
    return Said(np.concatenate(chunks), np.stack(codes), stream.stop)


def alone(model: QwenTTS, text: str, options: dict[str, Any]) -> Said:
    speech = model.speak(text, **options)
    return Said(speech.samples, speech.codes, speech.stop)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def alike(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Bit for bit on the CPU; other devices choose their kernels by how many rows they are given."""
    if ON_CPU or actual.dtype.kind != "f":
        return np.array_equal(actual, expected)
    return deviation(actual, expected) <= HALF_PRECISION_CACHE


@pytest.fixture(scope="module")
def model(open_tiny: Open) -> QwenTTS:
    return open_tiny()


@pytest.fixture(scope="module")
def expected(model: QwenTTS) -> list[Said]:
    return [alone(model, text, options) for text, options in REQUESTS]


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_each_says_what_it_says_alone(model: QwenTTS, expected: list[Said], size: int) -> None:
    with model.scheduler(size) as scheduler:
        streams = [scheduler.submit(text, **options) for text, options in REQUESTS]
        assert [read(stream) for stream in streams] == expected


PLAIN = pytest.param(
    {"plain_attention": True},
    marks=pytest.mark.cpu_only,  # elsewhere thirty frames of chance come to hang on how products are rounded
)


@pytest.mark.parametrize("options", [{"kv_type": "f32"}, PLAIN, {"threads": 2}])
def test_with_other_arithmetic(open_tiny: Open, options: dict[str, Any]) -> None:
    model = open_tiny(**options)
    with model.scheduler(4) as scheduler:
        streams = [scheduler.submit(text, **asked) for text, asked in REQUESTS]
        for stream, (text, asked) in zip(streams, REQUESTS, strict=True):
            assert read(stream) == alone(model, text, asked)


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_whoever_joins_and_leaves(model: QwenTTS, expected: list[Said], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(REQUESTS) - 1), min_size=1, max_size=9))
    leaving = data.draw(st.lists(st.sampled_from([None, None, None, 1, 2, 5]), min_size=9, max_size=9))
    joining = data.draw(st.lists(st.integers(0, 6), min_size=9, max_size=9))
    ahead = data.draw(st.sampled_from([1, 2, None]))

    def visit(place: int) -> bool:
        text, options = REQUESTS[order[place]]
        stream = scheduler.submit(text, ahead=ahead, **options)
        if leaving[place] is None:
            return read(stream) == expected[order[place]]
        chunks = [chunk.samples for chunk, _ in zip(stream, range(leaving[place]), strict=False)]
        stream.close()
        heard = np.concatenate(chunks)
        return same(heard, expected[order[place]].samples[: len(heard)])

    class Companions(Observer):
        """Lets the next request join when this one has come to a certain frame."""

        def __init__(self, place: int) -> None:
            self._place = place

        def frame(self, frames: int) -> None:
            if frames == joining[self._place]:
                guests.append(scheduler.submit("Why?", seed=frames, speaker="ryan", max_frames=frames))

    guests: list[SpeechStream[Any]] = []
    with model.scheduler(data.draw(st.integers(1, 4))) as scheduler, ThreadPoolExecutor(9) as pool:
        hosts = [
            scheduler.submit(REQUESTS[at][0], observer=Companions(place), ahead=None, **REQUESTS[at][1])
            for place, at in enumerate(order[:3])
        ]
        assert all(pool.map(visit, range(len(order))))
        assert [read(host) for host in hosts] == [expected[at] for at in order[:3]]
        for guest in guests:
            assert len(read(guest).codes) <= 6


def test_clones_of_either_kind(open_tiny: Open) -> None:
    base = open_tiny("Qwen3-TTS-12Hz-0.6B-Base")
    recording = next((DATA / "golden" / "audio").glob("*.wav"))
    voices = [base.voice(recording), base.voice(recording, "What is said in it."), None]
    requests = [
        (f"Text number {index}.", {"voice": voice, "seed": index, "max_frames": 6 + index})
        for index, voice in enumerate(voices * 2)
    ]
    expected = [alone(base, *request) for request in requests]
    base.close()  # what is remembered of the reference is made again, in the batch
    with base.scheduler(6) as scheduler:
        streams = [scheduler.submit(text, **options) for text, options in requests]
        assert [read(stream) for stream in streams] == expected


def test_a_reference_is_decoded_once_for_all_who_begin_together(
    open_tiny: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    primed: list[int] = []
    original = CodecStage.run

    def counted(self: CodecStage, arguments: Any) -> Any:
        primed.extend(len(asked.codes) for asked in arguments if isinstance(asked, Prime))
        return original(self, arguments)

    base = open_tiny("Qwen3-TTS-12Hz-0.6B-Base", overlap=False)
    width = base.info.talker.width
    voice = Voice(np.ones(width, np.float32), np.ones((40, 16), np.int32), "Some text.")
    base.close()
    monkeypatch.setattr(CodecStage, "run", counted)
    with base.scheduler(4) as scheduler:
        for stream in [scheduler.submit("Hi.", voice=voice, seed=1, max_frames=2) for _ in range(4)]:
            read(stream)
    assert primed == [16, 16, 8]


def test_a_long_text_in_one_place(open_tiny: Open) -> None:
    base = open_tiny("Qwen3-TTS-12Hz-0.6B-Base")
    text = "Hello, world! The weather is nice today. Tomorrow it may well rain again."
    options: dict[str, Any] = {"split": 7, "seed": 3, "max_frames": 40}
    with base.scheduler(2) as scheduler:
        streams = [scheduler.submit(text, **options), scheduler.submit("Hi.", seed=1, max_frames=5)]
        assert [read(stream) for stream in streams] == [
            alone(base, text, options),
            alone(base, "Hi.", {"seed": 1, "max_frames": 5}),
        ]


def test_memory_that_grows_in_the_middle(
    model: QwenTTS, expected: list[Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talker_batch, "POSITIONS_STRIDE", 1)
    monkeypatch.setattr("ggtts.core.qwen.talker.FRAMES_AT_FIRST", 2)
    with model.scheduler(4) as scheduler:
        streams = [scheduler.submit(text, **options) for text, options in REQUESTS]
        assert [read(stream) for stream in streams] == expected


def test_the_end_of_the_context(open_tiny: Open, tiny_gguf: Callable[..., Any], monkeypatch: Any) -> None:
    model = QwenTTS(
        (engine := Engine(DEVICE, threads=1)),
        engine.weights(tiny_gguf("Qwen3-TTS-12Hz-0.6B-CustomVoice")),
        engine.weights(tiny_gguf()),
    )
    monkeypatch.setattr(model._sessions._talker, "context_length", 24)
    options = {"speaker": "vivian", "seed": 11, "max_frames": 100, "guard": False}
    expected = alone(model, "Hello there.", options)
    assert expected.stop == "context"
    with model.scheduler(3) as scheduler:
        short = scheduler.submit("Hello there.", **{**options, "max_frames": 4})
        streams = [scheduler.submit("Hello there.", **options) for _ in range(2)]
        too_long = scheduler.submit("Much too long, " * 20, **options)
        assert [read(stream) for stream in streams] == [expected] * 2
        assert read(short).stop == "max_frames"
        with pytest.raises(UsageError, match="the text is too long"):
            read(too_long)


def test_a_failure_of_one(model: QwenTTS, expected: list[Said], monkeypatch: pytest.MonkeyPatch) -> None:
    original = FrameSampler.others
    astray = model.resolve("Bad.", speaker="ryan", seed=666)
    seeds: dict[int, int] = {}
    first_seen = FrameSampler.__init__

    def seeded(self: FrameSampler, *arguments: Any) -> None:
        seeds[id(self)] = arguments[-1]
        first_seen(self, *arguments)

    def failing(self: FrameSampler, frame: int) -> Any:
        def draw(logits: np.ndarray, codebook: int) -> int:
            if (frame, codebook) == (2, 7):
                raise EngineError("the model went astray")
            return self.other(frame, logits, codebook)

        return draw if seeds[id(self)] == astray.seed else original(self, frame)

    monkeypatch.setattr(FrameSampler, "__init__", seeded)
    monkeypatch.setattr(FrameSampler, "others", failing)
    with model.scheduler(8) as scheduler:
        bad = scheduler.submit(astray)
        streams = [scheduler.submit(text, **options) for text, options in REQUESTS]
        with pytest.raises(EngineError, match="astray"):
            read(bad)
        assert [read(stream) for stream in streams] == expected
        assert bad.frames == 2


def test_a_failing_device_fails_for_all_and_the_next_ones_go_on(
    model: QwenTTS, expected: list[Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, runs = FrameStage.run, [0]
    submitted = threading.Event()

    def failing(self: FrameStage, arguments: Any) -> Any:
        assert submitted.wait(PATIENCE)
        runs[0] += 1
        if runs[0] == 6:
            raise EngineError("the device is gone")
        return original(self, arguments)

    monkeypatch.setattr(FrameStage, "run", failing)
    text, options = REQUESTS[5]
    with model.scheduler(2) as scheduler:
        streams = [scheduler.submit(text, **options) for _ in range(3)]
        submitted.set()
        for stream in streams[:2]:
            with pytest.raises(EngineError, match="the device is gone"):
                read(stream)
        assert read(streams[2]) == expected[5]


def test_a_prompt_that_memory_does_not_suffice_for(
    model: QwenTTS, expected: list[Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = TalkerBatch.prefill

    def failing(self: TalkerBatch, slot: Any, prompt: np.ndarray, **options: Any) -> Any:
        if len(prompt) > 40:
            raise EngineError("not enough memory")
        return original(self, slot, prompt, **options)

    monkeypatch.setattr(TalkerBatch, "prefill", failing)
    with model.scheduler(2) as scheduler:
        good = scheduler.submit(REQUESTS[0][0], **REQUESTS[0][1])
        bad = scheduler.submit("A long text. " * 20, speaker="ryan", streamed_text=False, split=False)
        with pytest.raises(EngineError, match="memory"):
            read(bad)
        assert read(good) == expected[0]


def test_a_reader_that_stops_reading(open_tiny: Open, expected: list[Said]) -> None:
    """A codec beside the talker would let it run ahead."""
    text, options = REQUESTS[5]
    with open_tiny(overlap=False).scheduler(2) as scheduler:
        slow = scheduler.submit(text, ahead=1, stream_frames=2, **options)
        quick = [scheduler.submit(*REQUESTS[at][:1], **REQUESTS[at][1]) for at in (0, 2, 3)]
        assert [read(stream) for stream in quick] == [expected[at] for at in (0, 2, 3)]
        assert eventually(lambda: slow.frames == 1)
        assert read(slow) == expected[5]


def test_chunks_grow_while_nobody_reads(model: QwenTTS) -> None:
    text, options = REQUESTS[5]
    with model.scheduler(1) as scheduler:
        unread = scheduler.submit(text, **options)
        assert eventually(lambda: unread.stop is not None)
        frames = [chunk.frames for chunk in unread]
        assert (frames[0], max(frames), sum(frames)) == (1, UNHEARD_FRAMES, 30)
        capped = scheduler.submit(text, stream_frames=3, ahead=None, **options)
        assert eventually(lambda: capped.stop is not None)
        assert [chunk.frames for chunk in capped][:4] == [1, 2, 3, 3]


def test_chunks_that_are_waited_for_are_as_always(model: QwenTTS) -> None:
    text, options = REQUESTS[5]
    heard: list[int] = []

    class Reading(Observer):
        """Lets no frame be made before all chunks are read."""

        def frame(self, frames: int) -> None:
            assert eventually(lambda: stream.account.unheard == 0)

    begun = threading.Event()

    class AfterThat(Reading):
        def piece(self, number: int, count: int) -> None:
            assert begun.wait(PATIENCE)

    with model.scheduler(1) as scheduler:
        stream = scheduler.submit(text, observer=AfterThat(), **options)
        begun.set()
        heard.extend(chunk.frames for chunk in stream)
    assert heard == [1, 2, 4, 4, 4, 4, 4, 4, 3]
    assert max(heard) == STREAM_FRAMES


def test_one_wide_batch_of_the_codec_in_a_step(open_tiny: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_tiny(overlap=False)
    decode, expand = CodecStage.run, FrameStage.run
    wide = [0]

    def decoded(self: CodecStage, arguments: Any) -> Any:
        wide[-1] += sum(map(is_wide, arguments))
        return decode(self, arguments)

    def expanded(self: FrameStage, arguments: Any) -> Any:
        wide.append(0)
        return expand(self, arguments)

    monkeypatch.setattr(CodecStage, "run", decoded)
    monkeypatch.setattr(FrameStage, "run", expanded)
    text, options = REQUESTS[5]
    with model.scheduler(5) as scheduler:
        streams = [scheduler.submit(text, ahead=None, **options) for _ in range(5)]
        assert eventually(lambda: all(stream.stop is not None for stream in streams))
    assert (max(wide), sum(wide)) == (1, 10)


@pytest.mark.cpu_only  # elsewhere a code of this voice is decided by less than what rounding is
def test_with_the_masks_of_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flash attention over slots, which runs on the CPU as well."""
    for module in (kv_cache, slot_cache):
        monkeypatch.setattr(module, "needs_mask", lambda config, on_cpu: True)
    with QwenTTS.open(*demo_paths(), device=DEVICE, threads=1) as demo, demo.scheduler(3) as scheduler:
        assert demo.info.talker.head_dim in FLASH_HEAD_SIZES
        requests = [("Hello there.", 1), ("One, two, three, four.", 2), ("Why?", 3)]
        streams = [scheduler.submit(text, seed=seed, speaker="eva") for text, seed in requests]
        for stream, (text, seed) in zip(streams, requests, strict=True):
            assert read(stream) == alone(demo, text, {"seed": seed, "speaker": "eva"})


def test_observers_and_dumps(model: QwenTTS, tmp_path: Any) -> None:
    asked = REQUESTS[0]
    model.speak(asked[0], observer=StageDump(tmp_path / "alone"), **asked[1])
    watching = Recorder(stages=False)
    with model.scheduler(3) as scheduler:
        others = [scheduler.submit(text, **options) for text, options in REQUESTS[2:4]]
        dumped = scheduler.submit(asked[0], observer=StageDump(tmp_path / "batch"), **asked[1])
        watched = scheduler.submit(asked[0], observer=watching, **asked[1])
        for stream in (*others, dumped, watched):
            read(stream)
    assert (watching.pieces, watching.frames) == ([(1, 1)], list(range(1, watched.frames + 1)))
    files = sorted(path.name for path in (tmp_path / "alone").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "batch").iterdir())
    for name in files:
        told, expected = (read_dump(tmp_path / folder / name) for folder in ("batch", "alone"))
        assert alike(told, expected), name


def test_unsuitable_requests_fail_at_once(model: QwenTTS) -> None:
    with model.scheduler(2) as scheduler:
        with pytest.raises(UsageError, match="nobody"):
            scheduler.submit("Hello.", speaker="nobody")
        with pytest.raises(UsageError, match="0 frames"):
            scheduler.submit("Hello.", stream_frames=0, speaker="ryan")
        assert scheduler.occupancy == Occupancy(0, 0, 2)
    with pytest.raises(UsageError, match="0 requests"):
        model.scheduler(0)


def test_closing_lets_go_of_thread_and_memory(model: QwenTTS) -> None:
    gc.collect()
    gc.disable()
    try:
        scheduler = model.scheduler(3)
        streams = [scheduler.submit(text, ahead=1, **options) for text, options in REQUESTS]
        first = streams[0].account
        assert eventually(lambda: first.frames == 1)
        batch = weakref.ref(scheduler._lockstep._stages[0])
        scheduler.close()
        for stream in streams[3:]:
            with pytest.raises(EngineError, match="the scheduler was closed"):
                read(stream)
        del scheduler, stream, streams
        let_go()
        assert (threads(), batch()) == ([], None)
    finally:
        gc.enable()


@pytest.mark.cpu_only
def test_memory_of_a_long_speech_goes_when_everybody_has_left(model: QwenTTS) -> None:
    batch = model._sessions.batch(2)
    with batch.lend() as first, batch.lend():
        batch.talker.prefill(first._slot, np.ones((3, model.info.talker.width), np.float32), frames=20)
        assert batch.talker._cache.capacity == 128
    assert batch.talker._cache.capacity == 128
    with batch.lend() as first:
        batch.talker.prefill(first._slot, np.ones((700, model.info.talker.width), np.float32), frames=20)
        assert batch.talker._cache.capacity > 700
    assert batch.talker._cache.capacity == 0


def test_slots_that_move(engine: Engine, parts: Callable[[str], Parts]) -> None:
    """Any of the slots take a step together, and each keeps its sequence."""
    talker = parts("Qwen3-TTS-12Hz-0.6B-CustomVoice").talker
    width, random = talker.config.width, np.random.default_rng(0)
    rows = random.standard_normal((4, 12, width)).astype(np.float32)
    expected = []
    for row in rows:
        session = talker.session()
        expected.append([session.prefill(row[:5]), *(session.decode(at) for at in row[5:])])
    batch = TalkerBatch(talker, "f16")
    slots = [batch.join() for _ in range(4)]
    done = [0] * 4
    for index, slot in enumerate(slots):
        step = batch.prefill(slot, rows[index][:5])
        assert alike(step.logits, expected[index][0].logits)
    for together in ([3], [1, 2], [2, 0, 3], [0], [3, 1], [0, 1, 2, 3], [2], [3, 2]):
        steps = batch.decode(
            [slots[at] for at in together], np.stack([rows[at][5 + done[at]] for at in together])
        )
        for at, step in zip(together, steps, strict=True):
            done[at] += 1
            assert alike(step.hidden, expected[at][done[at]].hidden)
            assert alike(step.logits, expected[at][done[at]].logits)
        if together == [0]:
            batch.leave(slots[2])
            slots[2] = batch.join()
            batch.prefill(slots[2], rows[2][:5])
            done[2] = 0
