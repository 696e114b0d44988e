"""Who is spoken for next: a bounded number at a time, a bounded queue, and turns among clients."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from http import HTTPStatus

from .errors import ApiError

_MEMORY = 0.2
"""How much of the usual duration the newest one makes up."""


class Ticket:
    """A place among those that are spoken for, or in the queue before it."""

    def __init__(self, admission: Admission, client: str) -> None:
        self._admission = admission
        self._client = client
        self._granted = asyncio.Event()
        self._begun = 0.0
        self._returned = False

    @property
    def client(self) -> str:
        """Who it was given to."""
        return self._client

    async def turn(self) -> None:
        """Wait until there is a place."""
        await self._granted.wait()

    def grant(self, now: float) -> None:
        """Give it its place."""
        self._begun = now
        self._granted.set()

    def give_back(self) -> None:
        """Let the next one go on; giving back twice is harmless. Only from the thread of the event loop."""
        if not self._returned:
            self._returned = True
            self._admission.returned(self, self._begun if self._granted.is_set() else None)


class Admission:
    """Gives out tickets. All of it runs in the thread of the event loop.

    Clients take turns, so that one with many requests does not keep the others waiting behind all of them.
    """

    def __init__(self, places: int, most_waiting: int) -> None:
        """`places` requests go on at once, and `most_waiting` may wait."""
        self._places = places
        self._most_waiting = most_waiting
        self._active = 0
        self._queue: OrderedDict[str, deque[Ticket]] = OrderedDict()
        self._usual_seconds = 1.0

    @property
    def active(self) -> int:
        """How many have a place."""
        return self._active

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return sum(map(len, self._queue.values()))

    def enter(self, client: str) -> Ticket:
        """Return a ticket.

        Raises:
            ApiError: the queue is full; status 429, with the seconds after which there may be room.
        """
        ticket = Ticket(self, client)
        if self._active < self._places:
            self._begin(ticket)
        elif self.waiting >= self._most_waiting:
            raise self._full()
        else:
            self._queue.setdefault(client, deque()).append(ticket)
        return ticket

    def returned(self, ticket: Ticket, begun: float | None) -> None:
        """Take a ticket back; `begun` is when it got its place, None if it never did."""
        if begun is None:
            self._forget(ticket)
            return
        self._active -= 1
        took = asyncio.get_running_loop().time() - begun
        self._usual_seconds += _MEMORY * (took - self._usual_seconds)
        while self._queue and self._active < self._places:
            self._begin(self._next())

    def _begin(self, ticket: Ticket) -> None:
        self._active += 1
        ticket.grant(asyncio.get_running_loop().time())

    def _next(self) -> Ticket:
        client, tickets = self._queue.popitem(last=False)
        ticket = tickets.popleft()
        if tickets:
            self._queue[client] = tickets
        return ticket

    def _forget(self, ticket: Ticket) -> None:
        tickets = self._queue.get(ticket.client)
        if tickets and ticket in tickets:
            tickets.remove(ticket)
            if not tickets:
                del self._queue[ticket.client]

    def _full(self) -> ApiError:
        seconds = max(1, math.ceil((self.waiting + 1) / self._places * self._usual_seconds))
        return ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"{self._active} requests are being spoken and {self.waiting} are waiting: try again in {seconds} s",
            kind="rate_limit_error",
            code="queue_full",
            headers={"Retry-After": str(min(seconds, 600))},
        )
