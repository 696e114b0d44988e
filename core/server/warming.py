"""What a server says before anybody asks, so that nobody waits for what is only done once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from .casting import DEFAULT_VOICE, Cast
from .families import Family
from .options import ServerOptions
from .production import Speaks

TEXT = "Ready to speak."
WORDS = (1, 4, 8, 14, 22, 30)
"""How often longer texts say it: their prompts are padded to the lengths of most sentences (core/nn/buckets.py)."""
TIMES = 3
"""A program that runs for the third time is captured as a CUDA graph."""
MOST_SECONDS = 10.0
MOST_BEGINNING = 17
"""More do not begin together."""


class Warming:
    """A short request for every model; and where programs last, for each number of requests those that are usual."""

    def __init__(self, family: Family, cast: Cast, options: ServerOptions) -> None:
        """Raises UsageError if the options do not suit the model."""
        self._family = family
        self._places = options.max_batch
        speaker = cast.find(DEFAULT_VOICE)
        values = {"seed": 0, **family.warm_values}
        self._requests = [
            family.resolve(" ".join([TEXT] * times), options.language, speaker, values)
            for times in (WORDS if family.lasting else WORDS[:1])
        ]

    def speak(self, scheduler: Speaks, interrupted: Callable[[], bool]) -> None:
        """Speak all of it, until somebody else wants to or it takes too long; raises what the scheduler does."""
        begin = perf_counter()
        for wave in self._waves():
            streams = [scheduler.submit(request) for request in wave]
            for stream in streams:
                with stream as chunks:
                    for _ in chunks:
                        pass
            if interrupted() or perf_counter() - begin > MOST_SECONDS:
                return

    def _waves(self) -> Iterator[list[Any]]:
        """Yield what is spoken together, the usual first."""
        first, *longer = self._requests
        if not self._family.lasting:
            yield [first]
            return
        numbers = self._numbers()
        for request in (first, *longer):
            for number in numbers if request is first else [n for n in numbers if n <= MOST_BEGINNING]:
                yield from [[request] * number] * TIMES

    def _numbers(self) -> list[int]:
        """Return numbers of requests: the first one begins, and a power of two follows together."""
        powers = [1 << power for power in range(1, self._places.bit_length())]
        return sorted({1, *(min(power + 1, self._places) for power in powers)})
