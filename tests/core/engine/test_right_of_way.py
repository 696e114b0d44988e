"""Tests of who goes first on a device that two engines share."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ggtts import _native
from support.patience import PATIENCE


def begun(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_nobody_waits_where_nobody_goes_first() -> None:
    way = _native.RightOfWay()
    way.give()
    way.take()
    way.leave()
    way.give()


def test_the_other_side_waits_until_all_have_gone() -> None:
    way = _native.RightOfWay()
    order: list[str] = []

    def pass_by() -> None:
        way.give()
        order.append("given")

    way.take()
    way.take()
    passed = begun(pass_by)
    way.leave()
    assert passed.is_alive()
    order.append("gone")
    way.leave()
    passed.join(PATIENCE)
    assert order == ["gone", "given"]


def test_who_waited_comes_before_the_next_turn() -> None:
    way, rounds = _native.RightOfWay(), 200
    ended = threading.Event()

    def give_all() -> None:
        for _ in range(rounds):
            way.give()
        ended.set()

    way.take()
    giver = begun(give_all)
    way.leave()
    while not ended.is_set():  # a side that always goes first again does not keep the other one waiting
        way.take()
        way.leave()
    giver.join(PATIENCE)
    assert not giver.is_alive()
