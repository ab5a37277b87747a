"""The raw exchange: when it is complete, and what a channel does when a server closes, hangs or talks nonsense."""

import socket
import time
from itertools import pairwise

import pytest
from fakeserver import Script, serving
from hypothesis import given
from hypothesis import strategies as st

from servesmith.errors import MachineError
from servesmith.load.channel import Channel, Target
from servesmith.load.client import exchange_all
from servesmith.load.decode import Turn, decode
from servesmith.load.http1 import Address, MalformedResponse, request_bytes
from servesmith.load.reactor import Reactor
from servesmith.load.stamps import StampReader
from servesmith.load.wire import Exchange, Limits

BODY = b'{"stream":true}'
STREAM = (
    b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\r\n\r\n: ping\r\n\r\n'
    b'data: {"choices":[{"delta":{"content":"a 0\\r\\n\\r\\n"}}]}\r\n\r\n'
    b'data: {"choices":[{"delta":{"content":"b"},"finish_reason":"length"}]}\r\n\r\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\r\n\r\ndata: [DONE]\r\n\r\n'
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def chunk_by_events(body: bytes) -> bytes:
    parts = [part + b"\r\n\r\n" for part in body.split(b"\r\n\r\n") if part]
    frames = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + frames + b"0\r\n\r\n"


WHOLE = {
    "chunked": chunk_by_events(STREAM),
    "length": HEAD + b"Content-Length: %d\r\n\r\n" % len(STREAM) + STREAM,
}


def feed(raw: bytes, cuts: list[int]) -> tuple[Exchange, list[bool]]:
    exchange = Exchange(b"", 1_000_000)
    exchange.sent_ns = 1
    edges = sorted({0, len(raw), *(cut % len(raw) for cut in cuts)})
    ends = [exchange.receive(10 * edge, raw[start:edge]) for start, edge in pairwise(edges)]
    exchange.close(10 * len(raw))
    return exchange, ends


@pytest.mark.parametrize("framing", ["chunked", "length"])
@given(cuts=st.lists(st.integers(0, 10_000), max_size=60))
def test_any_split_of_the_bytes_gives_the_same_record_and_ends_with_the_last(framing, cuts):
    exchange, ends = feed(WHOLE[framing], cuts)
    assert ends == [False] * (len(ends) - 1) + [True] and exchange.exact
    record, whole = (
        decode([Turn(e, 0, output_tokens=2)], keep_text=True)[0] for e in (exchange, feed(WHOLE[framing], [])[0])
    )
    assert (record.chunk_kinds, record.chunk_tokens, record.text) == ((0, 1, 1, 4), (0, 1, 1, 0), "a 0\r\n\r\nb")
    assert (record.ok, record.chunk_kinds, record.output_tokens) == (True, whole.chunk_kinds, 2)
    assert list(record.chunk_ns) == sorted(record.chunk_ns)


def test_a_response_over_the_limit_is_malformed():
    exchange = Exchange(b"", 200)
    with pytest.raises(MalformedResponse, match="larger than 200"):
        exchange.receive(1, WHOLE["length"])


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_crash_it(garbage, as_body):
    exchange = Exchange(b"", 10_000)
    raw = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + garbage if as_body else garbage
    try:
        exchange.receive(1, raw)
    except MalformedResponse as error:
        exchange.close(2, "malformed", str(error))
    exchange.close(2, "cut")
    assert decode([Turn(exchange, 0)])[0].error in ("malformed", "cut", "http-status")


def converse(script: Script, requests: int = 1, *, limits: Limits = Limits(), wait_s: float = 0.0):  # noqa: B008
    """Send some requests over one channel, checking limits as a load does; the exchanges' records and the server."""
    with serving(script) as server:
        address = Address.parse(server.url)
        reactor = Reactor()
        channel = Channel(reactor, Target.resolve(address), limits, StampReader())
        turns = [
            Turn(channel.exchange(request_bytes(address, "/v1/chat/completions", BODY)), index)
            for index in range(requests)
        ]
        waiting = iter(turns)

        def ask_next(_=None):
            turn = next(waiting, None)
            if turn is None:
                reactor.stop()
            else:
                channel.ask(turn.exchange, lambda _: reactor.at(reactor.clock() + int(wait_s * 1e9), ask_next))

        reactor.every(0.02, channel.check)
        reactor.at(0, ask_next)
        reactor.run()
        channel.abort("cancelled")
        reactor.close()
        return decode(turns, keep_text=True), server


def test_one_connection_serves_many_requests():
    records, server = converse(Script(ttft_s=0, gap_s=0), 5)
    assert [r.error for r in records] == [""] * 5 and server.connections == 1


def test_a_kept_alive_connection_closed_while_idle_is_reopened():
    records, server = converse(Script(ttft_s=0, gap_s=0, requests_per_connection=1), 3, wait_s=0.05)
    assert [(r.error, r.detail) for r in records] == [("", "")] * 3 and server.connections == 3


def test_a_request_that_meets_a_closing_connection_is_sent_once_more_and_stamped_anew():
    records, server = converse(Script(ttft_s=0.05, gap_s=0, drop_request=2), 2)
    first, second = records
    assert first.ok and first.detail == ""
    assert second.ok and "sent twice" in second.detail
    assert abs((second.sent_ns - server.served[1].received_ns) / 1e6) < 25


def test_a_request_that_was_held_before_the_connection_closed_keeps_its_first_stamp():
    records, server = converse(Script(ttft_s=0.0, gap_s=0, drop_request=2, drop_delay_s=0.2), 2)
    assert records[1].ok and server.served[1].received_ns - records[1].sent_ns > 190_000_000


def test_a_fresh_connection_that_closes_is_the_servers_fault():
    records, server = converse(Script(drop_request=1))
    assert records[0].error == "cut" and "after 0 bytes" in records[0].detail and server.connections == 1


def ask_once(address: Address, limits: Limits = Limits()):  # noqa: B008
    return exchange_all(address, [b"x"], 1, limits)[0]


def test_nobody_there():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound but not listening: refused
        exchange = ask_once(Address("127.0.0.1", held.getsockname()[1]))
    record = decode([Turn(exchange, 0)])[0]
    assert record.error == "connect" and "refused" in record.detail.lower() and record.sent_ns > 0


def test_thousands_of_refusals_do_not_pile_up_on_the_stack():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", held.getsockname()[1])
        exchanges = exchange_all(address, [b"x"] * 3000, 1, Limits())
    assert {exchange.error for exchange in exchanges} == {"connect"}


def test_a_name_that_leads_nowhere():
    with pytest.raises(MachineError, match="cannot be looked up"):
        ask_once(Address("no-such-host.invalid", 80))


def test_a_listener_that_never_accepts_runs_into_the_first_token_limit():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen(1)
        exchange = ask_once(Address("127.0.0.1", held.getsockname()[1]), Limits(first_token_s=0.1))
    assert exchange.error == "timeout-first-token"


def test_first_token_limit_is_not_met_by_a_role_chunk_or_pings():
    records, _ = converse(Script(hang_after=0, pings=True), limits=Limits(first_token_s=0.15))
    assert records[0].error == "timeout-first-token" and records[0].chunk_kinds == (0,)


def test_idle_and_total_limits():
    idle, _ = converse(Script(ttft_s=0, gap_s=0, hang_after=3), limits=Limits(idle_s=0.15))
    assert idle[0].error == "timeout-idle" and sum(kind == 1 for kind in idle[0].chunk_kinds) == 3
    total, _ = converse(Script(ttft_s=0, gap_s=0.02, tokens=1000), limits=Limits(total_s=0.2))
    assert total[0].error == "timeout-total"


def test_a_failed_exchange_does_not_poison_the_next():
    script = Script(ttft_s=0, gap_s=0, cut_after=2)
    records, server = converse(script, 3)
    assert [r.error for r in records] == ["cut"] * 3 and server.connections == 3


def test_limits_do_not_wait_for_the_response():
    began = time.monotonic()
    converse(Script(hang_after=0), limits=Limits(first_token_s=0.1))
    assert time.monotonic() - began < 3
