"""Answering `POST /v1/audio/speech`: queue, speech, stream, and the ways in which that can end early."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from time import perf_counter
from typing import Any, NoReturn

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send

from .admission import Admission, Ticket
from .bodies import client_gone, read_json
from .encoding import error_event
from .errors import ApiError, StreamBroken, from_failure, server_error
from .metrics import Metrics
from .notes import Notes, notes_of
from .options import ServerOptions
from .outbox import UNREAD_BYTES, Outbox
from .production import Production, Speaks
from .speech_calls import SpeechCall, SpeechCalls

logger = logging.getLogger(__name__)

STALL_SECONDS = 60.0
"""How long a client may read nothing at all before it is given up."""
FAREWELL_SECONDS = 1.0
"""How long the last word may take that an answer broke off."""
CODEC_SECONDS = 24.0
"""Most audio that the codec decodes at once, unless the options say; a batch has a lower bound of its own."""
LISTENED_FRAMES = 16
"""The model itself makes no larger chunks for somebody who listens."""
_SLICE = 1 << 16
"""Bytes sent at once, so that the system's buffer is the only other one."""


class SpeechEndpoint:
    """The ASGI application of one address."""

    def __init__(
        self,
        calls: SpeechCalls,
        admission: Admission,
        metrics: Metrics,
        options: ServerOptions,
        scheduler: Callable[[], Speaks],
        threads: Callable[[], ThreadPoolExecutor],
        *,
        sample_rate: int,
        frame_rate: float,
    ) -> None:
        """`scheduler` and `threads` return what there is while the server runs; both raise ApiError otherwise."""
        self._calls = calls
        self._admission = admission
        self._metrics = metrics
        self._options = options
        self._scheduler = scheduler
        self._threads = threads
        self._sample_rate = sample_rate
        self._codec_frames = max(1, int((options.codec_chunk_seconds or CODEC_SECONDS) * frame_rate + 0.5))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises:
            ApiError: what the client is to be told; nothing was sent.
            StreamBroken: the answer failed in its middle.
            ClientDisconnect: the client has left.
        """
        begin, notes = perf_counter(), notes_of(scope)
        body = await read_json(Request(scope, receive), self._calls.longest_body)
        call = await run_in_threadpool(self._calls.parse, body)
        notes.add(voice=call.speaker.label, format=call.kind.name, chars=len(call.text))
        logger.debug("to be said: %s", ascii(call.text))
        ticket = self._admission.enter(_client_of(scope))
        answer = _Answer(self, call, ticket, scope, send, notes, begin)
        try:
            await self._watched(answer, receive, begin)
        finally:
            answer.end()

    async def _watched(self, answer: _Answer, receive: Receive, begin: float) -> None:
        """Let an answer be given, as long as its client is there and it does not take too long."""
        work: asyncio.Task[None] = asyncio.ensure_future(answer.give())
        gone: asyncio.Task[None] = asyncio.ensure_future(client_gone(receive))
        left = max(0.0, self._options.timeout - (perf_counter() - begin)) if self._options.timeout else None
        try:
            await asyncio.wait({work, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            worked, has_left = work.done(), gone.done()
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
        if worked:
            work.result()
        elif has_left:
            self._metrics.cut.labels("client_left").inc()
            raise ClientDisconnect
        else:
            self._metrics.cut.labels("timeout").inc()
            await answer.fail(
                server_error(
                    f"the speech took longer than {self._options.timeout:g} s",
                    HTTPStatus.GATEWAY_TIMEOUT,
                    "timeout",
                )
            )

    def produce(self, call: SpeechCall, ticket: Ticket, *, whole: bool) -> tuple[Outbox, Production]:
        """Let a thread make an answer; it gives the ticket back when all is made, read or not."""
        loop = asyncio.get_running_loop()
        outbox = Outbox(loop, None if whole else UNREAD_BYTES)
        # Nobody hears a whole answer grow: its chunks need not begin small.
        frames = self._codec_frames if whole or self._codec_frames < LISTENED_FRAMES else None
        production = Production(call, outbox, self._sample_rate, whole=whole, stream_frames=frames)

        def done() -> None:
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(ticket.give_back)

        self._threads().submit(production.run, self._scheduler(), done)
        return outbox, production

    def began(self, waited: float) -> None:
        """Count a speech that begins."""
        self._metrics.wait.observe(waited)
        self._metrics.occupancy.observe(self._admission.active)

    def heard(self, seconds: float) -> None:
        """Count a first byte."""
        self._metrics.first_byte.observe(seconds)

    def made(self, production: Production) -> None:
        """Count what was made."""
        self._metrics.audio.inc(production.audio_seconds)
        if production.stop is not None and production.audio_seconds:
            self._metrics.real_time_factor.observe(production.seconds / production.audio_seconds)

    def failed(self) -> None:
        """Count a failure in the middle."""
        self._metrics.cut.labels("failure").inc()


class _Answer:
    """One request being answered."""

    def __init__(
        self,
        endpoint: SpeechEndpoint,
        call: SpeechCall,
        ticket: Ticket,
        scope: Scope,
        send: Send,
        notes: Notes,
        begin: float,
    ) -> None:
        self._endpoint = endpoint
        self._call = call
        self._ticket = ticket
        # HTTP/1.0 has no way to tell that an answer broke off, but a length that it does not reach.
        self._whole = scope.get("http_version") == "1.0" or not (call.kind.streams or call.events)
        self._send = send
        self._notes = notes
        self._begin = begin
        self._started = False
        self._outbox: Outbox | None = None
        self._production: Production | None = None

    async def give(self) -> None:
        """Wait for a place, then send what is made."""
        await self._ticket.turn()
        waited = perf_counter() - self._begin
        self._notes.add(queue=waited)
        self._endpoint.began(waited)
        self._outbox, self._production = self._endpoint.produce(self._call, self._ticket, whole=self._whole)
        try:
            data = await self._first(self._outbox)
            await self._start(len(data) if self._whole else None)
            while data:
                await self._send_all(data)
                data = await self._outbox.take()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        except Exception as error:
            if not self._started:
                raise
            await self._break_off(error)

    def end(self) -> None:
        """Let go of everything, wherever it stands."""
        if self._production is None:
            self._ticket.give_back()
            return
        self._production.cancel()
        self._endpoint.made(self._production)
        self._notes.add(audio=self._production.audio_seconds, frames=self._production.frames)
        if self._production.stop is not None and self._production.audio_seconds:
            self._notes.add(
                rtf=self._production.seconds / self._production.audio_seconds, stop=self._production.stop
            )

    async def fail(self, error: ApiError) -> NoReturn:
        """Raise an error as it can be told now."""
        if not self._started:
            raise error
        await self._tell(error)
        raise StreamBroken(str(error))

    async def _first(self, outbox: Outbox) -> bytes:
        """Return the beginning of the answer, or all of it if it is to be whole.

        Raises:
            ApiError: there is none.
        """
        try:
            data = await outbox.take()
            while self._whole and (more := await outbox.take()):
                data += more
        except Exception as error:
            raise from_failure(error) from error
        return data

    async def _start(self, length: int | None) -> None:
        first = perf_counter() - self._begin
        self._notes.add(first=first)
        self._endpoint.heard(first)
        self._started = True
        await self._send(
            {"type": "http.response.start", "status": 200, "headers": _headers(self._call, length)}
        )

    async def _send_all(self, data: bytes) -> None:
        for start in range(0, len(data), _SLICE):
            message = {"type": "http.response.body", "body": data[start : start + _SLICE], "more_body": True}
            await _within(STALL_SECONDS, self._pass_on(message))

    async def _pass_on(self, message: Message) -> None:
        await self._send(message)

    async def _break_off(self, error: Exception) -> None:
        """Tell what can be told in the middle of an answer, and cut the connection."""
        if isinstance(error, TimeoutError):
            reason = f"the client read nothing for {STALL_SECONDS:g} s"
        else:
            told = from_failure(error)
            reason = str(told)
            await self._tell(told)
        self._endpoint.failed()
        raise StreamBroken(reason) from error

    async def _tell(self, error: ApiError) -> None:
        """Tell of an error as the last event, if there are events and they are read."""
        if self._call.events:
            message = {"type": "http.response.body", "body": error_event(error), "more_body": True}
            with suppress(TimeoutError):
                await _within(FAREWELL_SECONDS, self._pass_on(message))


async def _within(seconds: float, sending: Coroutine[Any, Any, None]) -> None:
    """Wait until something is sent, but not forever.

    Without a task of its own: nearly always there is room, and nothing is waited for.

    Raises:
        TimeoutError: the client does not read.
    """
    task, late = asyncio.current_task(), False
    assert task is not None

    def give_up() -> None:
        nonlocal late
        late = True
        task.cancel()

    alarm = asyncio.get_running_loop().call_later(seconds, give_up)
    try:
        await sending
    except asyncio.CancelledError:
        if not late:
            raise
        if hasattr(task, "uncancel"):  # since Python 3.11 a task remembers
            task.uncancel()
        raise TimeoutError from None
    finally:
        alarm.cancel()


def _headers(call: SpeechCall, length: int | None) -> list[tuple[bytes, bytes]]:
    headers = {
        "Content-Type": "text/event-stream" if call.events else call.kind.media_type,
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
        "X-GGTTS-Seed": str(call.request.seed),
    }
    if length is not None:
        headers["Content-Length"] = str(length)
    if call.request.warnings:
        headers["X-GGTTS-Warning"] = "; ".join(call.request.warnings)
    return [(name.lower().encode(), _header_value(value)) for name, value in headers.items()]


def _header_value(text: str) -> bytes:
    return " ".join(text.split()).encode("ascii", "replace")


def _client_of(scope: Scope) -> str:
    client: Any = scope.get("client")
    return str(client[0]) if client else ""
