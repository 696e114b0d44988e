"""A bounded number at once, a bounded queue, and turns among clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ggtts.core.server.admission import Admission, Ticket
from ggtts.core.server.errors import ApiError


def run(body: Callable[[Admission], Awaitable[None]], places: int = 1, most_waiting: int = 10) -> None:
    async def main() -> None:
        await body(Admission(places, most_waiting))

    asyncio.run(main())


async def has_turn(ticket: Ticket) -> bool:
    turn = asyncio.ensure_future(ticket.turn())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    granted = turn.done()
    turn.cancel()
    return granted


def test_clients_take_turns_whoever_came_first() -> None:
    async def body(admission: Admission) -> None:
        first = admission.enter("a")
        greedy = [admission.enter("a") for _ in range(3)]
        modest = admission.enter("b")
        order = []
        held = first
        for _ in range(4):
            held.give_back()
            ready = [ticket for ticket in (*greedy, modest) if await has_turn(ticket) and ticket not in order]
            assert len(ready) == 1
            order.append(ready[0])
            held = ready[0]
        assert order == [greedy[0], modest, greedy[1], greedy[2]]

    run(body)


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    async def body(admission: Admission) -> None:
        tickets = [admission.enter("a") for _ in range(3)]
        assert (admission.active, admission.waiting) == (2, 1)
        with pytest.raises(ApiError) as refusal:
            admission.enter("b")
        assert refusal.value.status == 429
        assert int(refusal.value.headers["Retry-After"]) >= 1
        tickets[2].give_back()
        assert admission.waiting == 0
        admission.enter("b")

    run(body, places=2, most_waiting=1)


def test_nothing_is_lost_whoever_gives_back_in_whatever_order() -> None:
    async def body(admission: Admission) -> None:
        tickets = [admission.enter(str(number % 3)) for number in range(9)]
        for ticket in (tickets[5], tickets[0], tickets[0], tickets[8], *tickets):
            ticket.give_back()
        assert (admission.active, admission.waiting) == (0, 0)

    run(body, places=2)


def test_without_a_queue_there_is_only_room_for_those_that_are_spoken() -> None:
    async def body(admission: Admission) -> None:
        admission.enter("a")
        with pytest.raises(ApiError):
            admission.enter("a")

    run(body, most_waiting=0)
