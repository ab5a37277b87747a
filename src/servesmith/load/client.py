"""Ask a server a list of things, each once, a few at a time: for the quality gate, not for measuring speed."""

from collections.abc import Sequence
from functools import partial

from servesmith.load.channel import Channel, Target
from servesmith.load.decode import Turn, decode
from servesmith.load.drive import CHECK_S
from servesmith.load.http1 import Address, request_bytes
from servesmith.load.reactor import Reactor
from servesmith.load.stamps import StampReader
from servesmith.load.wire import Exchange, Limits
from servesmith.measure.records import RequestRecord

CHAT = "/v1/chat/completions"


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
    exchanges = exchange_all(address, requests, max(1, concurrency), limits)
    return decode([Turn(exchange, index) for index, exchange in enumerate(exchanges)], keep_text=True)


def fetch(address: Address, request: bytes, limits: Limits) -> Exchange:
    """One request, whatever it asks for."""
    return exchange_all(address, [request], 1, limits)[0]


def exchange_all(address: Address, requests: Sequence[bytes], concurrency: int, limits: Limits) -> list[Exchange]:
    """Send every request once; the exchanges in order."""
    reactor = Reactor()
    asking = _Asking(reactor, address, limits, requests, concurrency)
    try:
        if requests:
            reactor.run()
    finally:
        asking.end()
        reactor.close()
    return asking.exchanges


class _Asking:
    """Channels that take the next request when they have ended one."""

    def __init__(
        self, reactor: Reactor, address: Address, limits: Limits, requests: Sequence[bytes], concurrency: int
    ) -> None:
        target, stamps = Target.resolve(address), StampReader()
        self._reactor = reactor
        self._channels = [Channel(reactor, target, limits, stamps) for _ in range(min(concurrency, len(requests)))]
        self.exchanges = [Exchange(request, limits.response_bytes) for request in requests]
        self._waiting = iter(self.exchanges)
        self._left = len(self.exchanges)
        reactor.every(CHECK_S, self._check)
        for channel in self._channels:
            reactor.at(0, partial(self._give, channel))

    def end(self) -> None:
        for channel in self._channels:
            channel.abort("cancelled")

    def _check(self) -> None:
        for channel in self._channels:
            channel.check()

    def _give(self, channel: Channel) -> None:
        if (exchange := next(self._waiting, None)) is not None:
            channel.ask(exchange, lambda _: self._ended(channel))

    def _ended(self, channel: Channel) -> None:
        self._left -= 1
        if not self._left:
            self._reactor.stop()
        self._give(channel)
