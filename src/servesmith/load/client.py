"""Ask a server a list of things, each once, a few at a time: for the quality gate, not for measuring speed."""

import asyncio
from collections.abc import Sequence

from servesmith.load.decode import Turn, decode
from servesmith.load.http1 import Address, request_bytes
from servesmith.load.loop import run
from servesmith.load.wire import Channel, Limits
from servesmith.measure.records import RequestRecord

CHAT = "/v1/chat/completions"
_CHECK_S = 0.25


def ask(
    url: str,
    bodies: Sequence[bytes],
    concurrency: int,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    *,
    key: str = "",
    path: str = CHAT,
) -> list[RequestRecord]:
    """Send every body once, at most `concurrency` at a time; one record a body, in order, with its text.

    Bodies must ask for a stream. `key` is a bearer key; it is sent and kept nowhere. What goes wrong with a
    request is in its record. Raises InputError if `url` is no address.
    """
    address = Address.parse(url)
    requests = [request_bytes(address, path, body, key) for body in bodies]
    return run(_ask_all(address, requests, max(1, concurrency), limits))


async def _ask_all(
    address: Address, requests: Sequence[bytes], concurrency: int, limits: Limits
) -> list[RequestRecord]:
    channels = [Channel(address, limits) for _ in range(min(concurrency, len(requests)))]
    waiting = iter(enumerate(requests))
    turns: dict[int, Turn] = {}

    async def work(stream: int, channel: Channel) -> None:
        for index, request in waiting:
            exchange = channel.exchange(request)
            turns[index] = Turn(exchange, index, stream)
            await channel.ask(exchange)

    workers = [asyncio.create_task(work(stream, channel)) for stream, channel in enumerate(channels)]
    watch = asyncio.create_task(watch_limits(channels))
    try:
        await asyncio.gather(*workers)
    finally:
        for task in (*workers, watch):
            task.cancel()
        for channel in channels:
            channel.abort("cancelled")
    return decode([turns[index] for index in sorted(turns)], keep_text=True)


async def watch_limits(channels: Sequence[Channel]) -> None:
    """End every request that passes a limit; runs until cancelled."""
    while True:
        await asyncio.sleep(_CHECK_S)
        for channel in channels:
            channel.check()
