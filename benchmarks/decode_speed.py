"""What decoding costs after the stream: from raw bytes to a reading, in CPU time a chunk.

One response is 200 tokens as vLLM streams them: one event of about 210 bytes a chunk, one chunk a read. The table has
the stages too. Medians of `--runs` runs; each run decodes `--responses` different responses.
"""

import argparse
import statistics
import time
from collections.abc import Callable

from servesmith.load.decode import Turn, read
from servesmith.load.events import read_events
from servesmith.load.http1 import dechunk, parse_head
from servesmith.load.sse import decode_events, stamp_events
from servesmith.load.wire import Exchange

WORDS = " the of in 7 time \\n model → and é was token"
CHUNK = (
    '{"id":"chatcmpl-8a1f0d2f7be14c2b9d1b6d2f3a4b5c6d","object":"chat.completion.chunk","created":1764600000,'
    '"model":"Qwen/Qwen3-8B","choices":[{"index":0,"delta":{%s},"logprobs":null,"finish_reason":%s}]%s}'
)
TOKENS = 200


def response(number: int, *, usage_in_each: bool) -> Exchange:
    """One response; `number` varies its id and its text."""
    words = WORDS.split()
    usage = ',"usage":{"prompt_tokens":128,"total_tokens":%d,"completion_tokens":%d}'
    texts = [f" {words[(number * 7 + place) % len(words)]}" for place in range(TOKENS)]
    counts = [usage % (128 + place, place) if usage_in_each else "" for place in range(1, TOKENS + 1)]
    bodies = [CHUNK % ('"role":"assistant","content":""', "null", "")]
    bodies += [CHUNK % (f'"content":"{text}"', "null", count) for text, count in zip(texts, counts, strict=True)]
    final = CHUNK.partition('"choices"')[0] + '"choices":[],"usage":{"prompt_tokens":128,"completion_tokens":200}}'
    bodies += [CHUNK % ('"content":""', '"length"', ""), final, "[DONE]"]
    exchange = Exchange(b"", 1 << 30)
    exchange.sent_ns = 1
    exchange.receive(2, b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                        b"transfer-encoding: chunked\r\n\r\n")  # fmt: skip
    for stamp, body in enumerate(bodies, 3):
        data = f"data: {body}\n\n".replace("8a1f0d2f", f"{number:08x}").encode()
        exchange.receive(stamp, b"%x\r\n%b\r\n" % (len(data), data))
    exchange.receive(1000, b"0\r\n\r\n")
    exchange.close(1001)
    return exchange


def cpu_us(work: Callable[[Exchange], object], exchanges: list[Exchange], runs: int) -> float:
    """Median over the runs of CPU microseconds a token."""
    found: list[float] = []
    for _ in range(runs):
        began = time.process_time_ns()
        for exchange in exchanges:
            work(exchange)
        found.append((time.process_time_ns() - began) / 1000 / len(exchanges) / TOKENS)
    return statistics.median(found)


def stages(exchanges: list[Exchange]) -> dict[str, Callable[[Exchange], object]]:
    """Each stage alone, on what the one before it made."""
    head = parse_head(exchanges[0].buffer)
    assert head is not None
    bodies = {id(each): dechunk(each.buffer, head) for each in exchanges}
    events = {key: decode_events(body.data) for key, body in bodies.items()}
    stamps = {id(e): stamp_events(bodies[id(e)], events[id(e)], e.stamps, e.lengths) for e in exchanges}
    return {
        "dechunk": lambda e: dechunk(e.buffer, head),
        "decode_events": lambda e: decode_events(bodies[id(e)].data),
        "stamp_events": lambda e: stamp_events(bodies[id(e)], events[id(e)], e.stamps, e.lengths),
        "read_events": lambda e: read_events(events[id(e)], stamps[id(e)]),
        "read: all, and the record": lambda e: read(Turn(e, 0, output_tokens=TOKENS)),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=7)
    options.add_argument("--responses", type=int, default=100)
    given = options.parse_args()
    for usage_in_each in (False, True):
        exchanges = [response(number, usage_in_each=usage_in_each) for number in range(given.responses)]
        print(f"usage in every chunk: {usage_in_each}")
        for name, work in stages(exchanges).items():
            print(f"  {name:28} {cpu_us(work, exchanges, given.runs):6.2f} us a chunk")


if __name__ == "__main__":
    main()
