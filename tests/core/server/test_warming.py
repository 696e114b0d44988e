"""What a server says before anybody asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from ggtts.core.errors import UsageError
from ggtts.core.server.casting import Cast
from ggtts.core.server.options import ServerOptions
from ggtts.core.server.voice_store import VoiceStore
from ggtts.core.server.warming import TEXT, TIMES, WORDS, Warming
from support.humming_family import HummingFamily


class Waves:
    """A scheduler that notes how often the requests say it which came before one was read."""

    def __init__(self) -> None:
        self.waves: list[list[int]] = []
        self._reading = True

    def submit(self, request: Any, *, stream_frames: int | None = None) -> Any:
        if self._reading:
            self.waves.append([])
        self._reading = False
        self.waves[-1].append(request.text.count(TEXT))
        return closing(self)

    def __iter__(self) -> Iterator[Any]:
        self._reading = True
        return iter(())

    def close(self) -> None:
        """Of a stream: there is nothing to do."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggtts.core.server.warming.MOST_SECONDS", float("inf"))


def warming(lasting: bool, places: int) -> tuple[Warming, Waves]:
    family = HummingFamily()
    family.lasting = lasting
    cast = Cast(family, VoiceStore(None, family.clone))
    return Warming(family, cast, ServerOptions(max_batch=places)), Waves()


def test_one_request_where_programs_are_cheap() -> None:
    warm, scheduler = warming(False, 64)
    warm.speak(scheduler, lambda: False)
    assert scheduler.waves == [[1]]


def test_all_numbers_and_lengths_where_they_last() -> None:
    warm, scheduler = warming(True, 20)
    warm.speak(scheduler, lambda: False)
    seen = {(wave[0], len(wave)) for wave in scheduler.waves}
    assert {number for length, number in seen if length == 1} == {1, 3, 5, 9, 17}
    assert {length for length, _ in seen} == set(WORDS)
    assert all(scheduler.waves.count(wave) == TIMES for wave in scheduler.waves)


@pytest.mark.parametrize(
    ("places", "numbers"), [(1, {1}), (2, {1, 2}), (8, {1, 3, 5, 8}), (64, {1, 3, 5, 9, 17, 33, 64})]
)
def test_no_more_than_there_are_places(places: int, numbers: set[int]) -> None:
    warm, scheduler = warming(True, places)
    warm.speak(scheduler, lambda: False)
    assert {len(wave) for wave in scheduler.waves} == numbers


def test_whoever_asks_ends_it() -> None:
    warm, scheduler = warming(True, 8)
    warm.speak(scheduler, lambda: len(scheduler.waves) == 4)
    assert len(scheduler.waves) == 4


def test_options_that_do_not_suit_the_model() -> None:
    family = HummingFamily()
    cast = Cast(family, VoiceStore(None, family.clone))
    with pytest.raises(UsageError, match="unknown language"):
        Warming(family, cast, ServerOptions(language="klingon"))
