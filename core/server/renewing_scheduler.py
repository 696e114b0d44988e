"""A scheduler that is replaced when it has died: one defect must not end a server that is meant to be left running."""

from __future__ import annotations

import logging
import threading
from typing import Any

from ..errors import EngineError
from ..speech.stream import SpeechStream
from .families import Family
from .production import Speaks

logger = logging.getLogger(__name__)


class RenewingScheduler:
    """Speaks as the scheduler of a model does, until it is closed. Usable from several threads."""

    def __init__(self, family: Family, places: int) -> None:
        """See `Family.scheduler`."""
        self._family = family
        self._places = places
        self._lock = threading.Lock()
        self._scheduler = family.scheduler(places)
        self._closed = False

    def submit(self, request: Any, *, stream_frames: int | None = None) -> SpeechStream[Any]:
        """Let a request be spoken; see `core.speech.scheduler.Scheduler.submit`.

        Raises:
            UsageError: the request cannot be right for the model.
            EngineError: the server is ending.
        """
        scheduler: Speaks = self._scheduler
        try:
            return scheduler.submit(request, stream_frames=stream_frames)
        except EngineError as error:
            # A scheduler refuses only when it is closed; that was not done here, so its thread has failed.
            return self._successor(scheduler, error).submit(request, stream_frames=stream_frames)

    def close(self) -> None:
        """End all speeches; no further ones begin. Closing twice is harmless."""
        with self._lock:
            self._closed = True
            scheduler = self._scheduler
        scheduler.close()

    def _successor(self, dead: Speaks, error: EngineError) -> Speaks:
        """Return the scheduler in place of one that has died, which is made once."""
        with self._lock:
            if self._closed:
                raise error
            if self._scheduler is dead:
                logger.error("the scheduler has failed and is replaced: %s", error)
                self._scheduler = self._family.scheduler(self._places)
            successor: Speaks = self._scheduler
            return successor
