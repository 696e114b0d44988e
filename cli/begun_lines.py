"""Lines that are being spoken before their turn comes, as they arrive."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core.speech.stream import SpeechStream
    from ..core.text.decoding import Line


@dataclass(frozen=True)
class BegunLine:
    """A line, and its speech on the way; or why it cannot be spoken."""

    line: Line
    stream: SpeechStream[Any] | None
    problem: Exception | None = None

    @classmethod
    def of(cls, line: Line, begin: Callable[[Line], SpeechStream[Any]]) -> BegunLine:
        """Begin the speech of a line."""
        try:
            if line.problem is not None:
                raise line.problem
            return cls(line, begin(line))
        except Exception as error:
            return cls(line, None, error)

    def speech(self) -> SpeechStream[Any]:
        """Return the speech, or raise the problem."""
        if self.problem is not None:
            raise self.problem
        assert self.stream is not None
        return self.stream


class BegunLines:
    """Begins every line when it arrives, on a thread of its own, and hands the lines out in order.

    A context manager: at its end no further line is begun. The thread may then still wait for its next line.
    """

    def __init__(self, lines: Iterable[Line], begin: Callable[[Line], SpeechStream[Any]], ahead: int) -> None:
        """`begin` starts the speech of a line, or raises; `ahead` is how many there are before they are asked for."""
        self._lines = lines
        self._begin = begin
        self._permits = threading.Semaphore(ahead)
        self._arrived: queue.SimpleQueue[BegunLine | BaseException | None] = queue.SimpleQueue()
        self._closed = False
        # A daemon: nobody can interrupt it while it waits for input, and the program has to end nevertheless.
        self._thread = threading.Thread(target=self._run, name="ggtts-lines", daemon=True)

    def __iter__(self) -> Iterator[BegunLine]:
        """Yield the lines in order.

        Raises:
            BaseException: what reading them raised, behind the lines before.
        """
        self._thread.start()
        while True:
            arrived = self._arrived.get()
            if arrived is None:
                return
            if isinstance(arrived, BaseException):
                raise arrived
            yield arrived
            self._permits.release()

    def __enter__(self) -> BegunLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The thread may wait for input until the program ends: it must not keep the model alive as long.
        self._begin = _not_any_more
        self._closed = True
        self._permits.release()

    def _run(self) -> None:
        try:
            for line in self._lines:
                self._permits.acquire()
                if self._closed:
                    return
                self._arrived.put(BegunLine.of(line, self._begin))
        except BaseException as error:
            self._arrived.put(error)
        else:
            self._arrived.put(None)


def _not_any_more(line: Line) -> SpeechStream[Any]:
    raise RuntimeError(f"line {line.number} came too late")
