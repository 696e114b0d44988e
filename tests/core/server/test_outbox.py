"""Bytes from a thread to the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ggtts.core.server.outbox import Outbox, ReaderLeft


def test_everything_arrives_in_order_through_a_small_buffer() -> None:
    async def main() -> bytes:
        outbox = Outbox(asyncio.get_running_loop(), most_unread=100)

        def make() -> None:
            for number in range(200):
                outbox.put(bytes([number]) * 30)
            outbox.finish()

        thread = threading.Thread(target=make)
        thread.start()
        data = b""
        while part := await outbox.take():
            assert len(part) <= 130
            data += part
        thread.join()
        return data

    assert asyncio.run(main()) == b"".join(bytes([number]) * 30 for number in range(200))


def test_an_error_comes_behind_the_bytes_before_it() -> None:
    async def main() -> None:
        outbox = Outbox(asyncio.get_running_loop())
        outbox.put(b"first")
        outbox.finish(ValueError("broken"))
        assert await outbox.take() == b"first"
        with pytest.raises(ValueError, match="broken"):
            await outbox.take()

    asyncio.run(main())


def test_a_reader_that_leaves_wakes_the_one_who_writes() -> None:
    async def main() -> None:
        outbox = Outbox(asyncio.get_running_loop(), most_unread=1)
        outbox.put(b"unread")
        left = threading.Event()

        def make() -> None:
            try:
                outbox.put(b"more")
            except ReaderLeft:
                left.set()

        thread = threading.Thread(target=make)
        thread.start()
        outbox.cancel()
        thread.join()
        assert left.is_set()
        with pytest.raises(ReaderLeft):
            outbox.put(b"again")

    asyncio.run(main())


def test_a_closed_loop_is_no_error_for_the_thread() -> None:
    async def main() -> Outbox:
        return Outbox(asyncio.get_running_loop())

    outbox = asyncio.run(main())
    outbox.put(b"nobody")
    outbox.finish()
