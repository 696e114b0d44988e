"""The thread of a scheduler: it resumes speeches, makes what they await together, and keeps chunks for readers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ..errors import EngineError
from .background import Background
from .calls import Call, Stage, completed, make_calls
from .stream import Account, AudioChunk, Cancelled, Chunk

Request = TypeVar("Request")

THREAD_NAME = "ggtts-scheduler"


@dataclass(frozen=True)
class Task(Generic[Request]):
    """A speech that has not begun.

    Attributes:
        request: what it came from, complete, for `SpeechStream.request`.
        sample_rate: samples per second.
        account: is kept up to date by whoever makes the chunks.
        chunks: makes the audio: an async generator that awaits calls, or a plain one that computes by itself.
    """

    request: Request
    sample_rate: int
    account: Account
    chunks: AsyncGenerator[Chunk, None] | Generator[AudioChunk, None, None]


class Speech:
    """A task being done.

    Attributes:
        account: that of the task.
        call: what it awaits.
        chunks: what is made, or on its way, and not read.
        arrived: tells its reader that there is something new.
        interrupted: its account says that nobody wants the rest because the scheduler closes; its reader might.
        ended: nothing more will come.
        error: why it ended, where it failed; its reader takes it away.
    """

    def __init__(self, task: Task[Any], ahead: int | None) -> None:
        """`ahead` is how many chunks may wait to be read, None for any number."""
        self.account = task.account
        self.call: Call[Any, Any] | None = None
        self.chunks: deque[Chunk] = deque()
        self.arrived: threading.Condition | None = None
        self.interrupted = False
        self.ended = False
        self.error: BaseException | None = None
        self._ready = 0  # of the chunks, the first ones
        self._ahead = ahead
        self._steps: _Steps | None = (
            _Awaiting(task.chunks) if isinstance(task.chunks, AsyncGenerator) else _Computing(task.chunks)
        )

    @property
    def cancelled(self) -> bool:
        """Nobody wants the rest."""
        return self.account.cancelled.is_set() and not self.interrupted

    @property
    def pausing(self) -> bool:
        """It waits for its reader."""
        return self.call is None and self._ahead is not None and self.account.unheard >= self._ahead

    @property
    def has_news(self) -> bool:
        """There is something for its reader."""
        return self.ended or self.cancelled or (bool(self.chunks) and self.chunks[0].settled)

    @property
    def takes_turns(self) -> bool:
        """It computes by itself, and so after each chunk the others come first."""
        return isinstance(self._steps, _Computing)

    def count_ready(self) -> bool:
        """Take note of how many chunks its reader could have now, and when the first one was there; tell of more."""
        ready = min(self._ready, len(self.chunks))
        while ready < len(self.chunks) and self.chunks[ready].settled:
            ready += 1
        more, self._ready = ready > self._ready, ready
        self.account.unheard = ready
        if more:
            self.account.stopwatch.mark("first_audio")
        return more

    def take_ready(self) -> Chunk:
        """Take the first chunk, which is ready."""
        chunk = self.chunks.popleft()
        self._ready = max(0, self._ready - 1)
        self.count_ready()
        return chunk

    def go_on(self) -> Call[Any, Any] | Chunk | None:
        """Return the next call that it awaits, or the next chunk; None at its end."""
        assert self._steps is not None
        self.call = None
        self.account.stopwatch.resume()
        return self._steps.next()

    def leave(self) -> None:
        """Let go of what it runs on, wherever it stands."""
        steps, self._steps, self.call = self._steps, None, None
        self.account.stopwatch.pause()
        if steps is not None:
            steps.close()


class Lockstep:
    """Speeches in the order they came, the first `capacity` of them active, and the thread that makes them.

    One lock guards what readers and the thread share. Nothing is computed while it is held.
    """

    def __init__(
        self,
        capacity: int,
        stages: Sequence[Stage[Any, Any]],
        release: Callable[[], None] | None,
        background: Background[Any, Any] | None = None,
    ) -> None:
        self._capacity = capacity
        self._background = background
        if background is not None:
            background.on_settled(self._wake)
        self._stages = tuple(stages)
        self._release = release
        # Reentrant, as the garbage collector may close a forgotten stream at any point of this thread's work.
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._waiting: deque[Speech] = deque()
        self._active: list[Speech] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, speech: Speech) -> None:
        """Put a speech behind the others.

        Raises:
            EngineError: the scheduler is closed.
        """
        with self._lock:
            if self._closed:
                raise _closed()
            speech.arrived = threading.Condition(self._lock)
            self._waiting.append(speech)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
                self._thread.start()
            self._news.notify_all()

    def count(self) -> tuple[int, int]:
        """Return how many speeches are active, and how many wait for a place."""
        with self._lock:
            return len(self._active), len(self._waiting)

    def take(self, speech: Speech) -> AudioChunk | None:
        """Return the next chunk of a speech once there is one; None at its end."""
        while (chunk := self._taken(speech)) is not None:
            try:
                finished = chunk.finish()
            except BaseException:
                self.cancel(speech)
                raise
            if finished is not None:
                return finished
        return None

    def _taken(self, speech: Speech) -> Chunk | None:
        """Return the next chunk of a speech once it can be finished; None at its end."""
        with self._lock:
            assert speech.arrived is not None
            while not speech.has_news:
                speech.arrived.wait()
            if speech.cancelled:
                return None
            if speech.chunks:
                chunk = speech.take_ready()
                self._news.notify_all()
                return chunk
            error, speech.error = speech.error, None
        try:
            if error is not None:
                raise error
            return None
        finally:
            del error  # or it would keep this frame, which keeps it

    def cancel(self, speech: Speech) -> None:
        """Tell that nobody wants the rest of a speech."""
        with self._lock:
            speech.chunks.clear()
            speech.error = None
            if speech.ended:
                return
            speech.account.cancelled.set()
            speech.interrupted = False
            if speech.arrived is not None:
                speech.arrived.notify_all()
            self._news.notify_all()

    def close(self) -> None:
        """End all speeches and the thread, those that compute by themselves at the step of their model at hand."""
        with self._lock:
            self._closed = True
            for speech in self._active:
                if not speech.cancelled:
                    speech.interrupted = True
                    speech.account.cancelled.set()
            self._news.notify_all()
            thread = self._thread
        if thread is None and self._background is not None:
            self._background.close()
        elif thread is not None and not self._is_awaited_here(thread):
            thread.join()

    def _is_awaited_here(self, thread: threading.Thread) -> bool:
        """Whether the thread would wait for the current one, on which the garbage collector may close a scheduler."""
        here = thread is threading.current_thread()
        return here or (self._background is not None and self._background.is_here)

    def _run(self) -> None:
        try:
            while self._has_work():
                self._step()
        finally:
            self._end_all()
            if self._release is not None:
                self._release()

    def _has_work(self) -> bool:
        """Wait until a speech can go on; return False when all are to end instead."""
        with self._lock:
            while not self._closed:
                self._admit()
                if any(map(self._can_go_on, self._active)):
                    self._tell_of_work(True)
                    return True
                self._tell_of_work(False)
                self._news.wait()
            return False

    def _can_go_on(self, speech: Speech) -> bool:
        call = speech.call
        if speech.cancelled or (call is None and not speech.pausing):
            return True
        return call is not None and (call.settled or call.stage in self._stages)

    def _tell_of_work(self, goes_on: bool) -> None:
        """Let the other thread know whether this one computes."""
        if self._background is not None:
            self._background.work_elsewhere(goes_on)

    def _wake(self) -> None:
        """Take note that calls of the other thread were made: their speeches go on, and chunks can be finished."""
        with self._lock:
            for speech in self._active:
                if speech.count_ready():
                    _notify(speech)
            self._news.notify_all()

    def _admit(self) -> None:
        wanted: deque[Speech] = deque()
        for speech in self._waiting:
            if speech.cancelled:
                # Whoever shares its account may have set that, while somebody waits for the first chunk.
                speech.ended = True
                _notify(speech)
            else:
                wanted.append(speech)
        self._waiting = wanted
        while self._waiting and len(self._active) < self._capacity:
            self._active.append(self._waiting.popleft())

    def _step(self) -> None:
        """Let every speech take one step of every stage, so that all of them stay abreast."""
        for speech in list(self._active):
            if speech.cancelled:
                self._end(speech)
            elif speech.call is None or speech.call.settled:
                self._advance(speech)
        for stage in self._stages:
            self._make(stage)
            while stage.gathers and self._welcome():
                self._make(stage)
            self._resume_settled()

    def _make(self, stage: Stage[Any, Any]) -> None:
        """Make the calls of a stage, and let those go on who asked."""
        asking = [
            (speech, call)
            for speech in self._active
            if (call := speech.call) is not None and call.stage is stage and not speech.cancelled
        ]
        if asking:
            make_calls(stage.pick([call for _, call in asking]))
            for speech, call in asking:
                if call.settled:
                    self._advance(speech)

    def _welcome(self) -> bool:
        """Let those begin who have come during this step; tell whether there are any."""
        with self._lock:
            known = len(self._active)
            if not self._closed:
                self._admit()
            come = self._active[known:]
        for speech in come:
            self._advance(speech)
        return bool(come)

    def _resume_settled(self) -> None:
        """Let those go on whose calls the other thread has made."""
        if self._background is None:
            return
        for speech in list(self._active):
            if speech.call is not None and speech.call.settled and not speech.cancelled:
                self._advance(speech)

    def _advance(self, speech: Speech) -> None:
        """Let a speech run until it awaits a call, pauses or ends."""
        try:
            while not speech.pausing:
                reached = speech.go_on()
                if reached is None:
                    self._end(speech)
                    return
                if isinstance(reached, Call):
                    speech.call = reached
                    return
                self._deliver(speech, reached)
                if speech.takes_turns:
                    return
            speech.account.stopwatch.pause()
        except Cancelled:
            self._end(speech, _closed() if speech.interrupted else None)
        except BaseException as error:
            # Whatever it is, it belongs to the reader of this speech, and the thread to the others.
            self._end(speech, error)

    def _deliver(self, speech: Speech, chunk: Chunk) -> None:
        with self._lock:
            if not speech.cancelled:
                speech.chunks.append(chunk)
                speech.count_ready()
            _notify(speech)

    def _end(self, speech: Speech, error: BaseException | None = None) -> None:
        try:
            speech.leave()
        except BaseException as failure:
            error = error or failure
        with self._lock:
            if speech in self._active:
                self._active.remove(speech)
            while speech.chunks and not speech.chunks[-1].settled:
                speech.chunks.pop()  # nobody makes them any more
            speech.ended, speech.error = True, error
            _notify(speech)

    def _end_all(self) -> None:
        with self._lock:
            self._closed = True
            left = [*self._active, *self._waiting]
            self._waiting.clear()
        for speech in left:
            self._end(speech, None if speech.cancelled else _closed())


class _Steps(Protocol):
    """A task, step by step."""

    def next(self) -> Call[Any, Any] | Chunk | None:
        """Go on to the next call or chunk; None at the end."""

    def close(self) -> None:
        """Let go of everything, wherever it stands."""


class _Awaiting:
    """A task that awaits calls."""

    def __init__(self, chunks: AsyncGenerator[Chunk, None]) -> None:
        self._chunks = chunks
        self._step: Generator[Any, Any, Chunk] | None = None

    def next(self) -> Call[Any, Any] | Chunk | None:
        step, self._step = self._step or self._chunks.__anext__().__await__(), None
        try:
            call: Call[Any, Any] = next(step)
        except StopAsyncIteration:
            return None
        except StopIteration as reached:
            chunk: Chunk = reached.value
            return chunk
        self._step = step
        return call

    def close(self) -> None:
        step, self._step = self._step, None
        try:
            if step is not None:
                step.throw(Cancelled())
        except (Cancelled, StopAsyncIteration):
            pass
        finally:
            completed(self._chunks.aclose())


class _Computing:
    """A task that computes by itself."""

    def __init__(self, chunks: Generator[AudioChunk, None, None]) -> None:
        self._chunks = chunks

    def next(self) -> AudioChunk | None:
        return next(self._chunks, None)

    def close(self) -> None:
        self._chunks.close()


def _notify(speech: Speech) -> None:
    if speech.arrived is not None and speech.has_news:
        speech.arrived.notify_all()


def _closed() -> EngineError:
    return EngineError("the scheduler was closed")
