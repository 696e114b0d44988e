"""Steps of a talker that a device takes while its host does something else."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ..engine.talker_plan import BegunSteps
from ..errors import EngineError
from ..nn.slot_cache import SlotCache

FloatArray = NDArray[np.float32]


class TalkerSlot:
    """The place of one utterance in a batch.

    Attributes:
        number: of its slot in the cache, which changes as others come and go; -1 once it was given back.
    """

    def __init__(self, number: int) -> None:
        self.number = number


class StepsUnderWay:
    """One more position of each of some slots. They count as soon as they were waited for.

    Attributes:
        seconds: from their beginning until they were waited for.
    """

    def __init__(self, begun: BegunSteps, slots: Sequence[TalkerSlot], cache: SlotCache) -> None:
        self.seconds = 0.0
        self._slots, self._cache = slots, cache
        self._begun: BegunSteps | None = begun
        self._began_at = perf_counter()
        self._answer: tuple[FloatArray, FloatArray] | EngineError

    def wait(self) -> None:
        """Wait for them. `result` tells of a failure."""
        if self._begun is None:
            return
        try:
            hidden, logits = self._begun.result()
            self._answer = logits, hidden
            for slot in self._slots:
                if slot.number >= 0:  # whoever has its place now has not begun
                    self._cache.advance(slot.number, 1)
        except EngineError as error:
            self._answer = error
        finally:
            self._begun = None
            self.seconds = perf_counter() - self._began_at

    def result(self) -> tuple[FloatArray, FloatArray]:
        """Wait for the logits [slots, vocabulary] and the hidden states [slots, width].

        Raises:
            EngineError: the device failed.
        """
        self.wait()
        if isinstance(self._answer, EngineError):
            raise self._answer
        return self._answer
