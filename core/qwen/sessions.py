"""The memory and programs that utterances run on, lent and taken back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from .batch import Batch
from .code_predictor import CodePredictor
from .generation import AnySession, Session
from .talker import Talker


class Sessions(Protocol):
    """Lends what an utterance runs on."""

    def lend(self) -> AbstractContextManager[AnySession]:
        """Lend a session until the end of the context.

        Raises:
            EngineError: the device has not enough memory.
        """


class SessionPool:
    """Lends sessions: as many as utterances run at once. What one leaves serves the next."""

    def __init__(self, talker: Talker, predictor: CodePredictor, kv_type: str) -> None:
        self._talker, self._predictor, self._kv_type = talker, predictor, kv_type
        self._idle: list[Session] = []
        self._lock = threading.Lock()

    @contextmanager
    def lend(self) -> Iterator[Session]:
        """Lend an idle session, or a new one.

        Raises:
            EngineError: the device has not enough memory.
        """
        with self._lock:
            session = self._idle.pop() if self._idle else None
        if session is None:
            session = Session(self._talker.session(self._kv_type), self._predictor.session(self._kv_type))
        try:
            yield session
        finally:
            with self._lock:
                self._idle.append(session)

    def batch(self, capacity: int) -> Batch:
        """Return sessions for up to `capacity` utterances that take their steps together."""
        return Batch(self._talker, self._predictor, self._kv_type, capacity)

    def clear(self) -> None:
        """Let go of idle sessions."""
        with self._lock:
            self._idle.clear()
