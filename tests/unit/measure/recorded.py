"""Records made up for tests of measuring: times in milliseconds, all else as a plain request has it."""

from servesmith.measure.records import ChunkKind, RequestRecord, Window

MS = 1_000_000


def record(sent: float, first: float, gap: float, chunks: int, **fields) -> RequestRecord:
    """A role chunk 1 ms after sending, `chunks` token chunks from `first` on, and usage with the end."""
    per_chunk = fields.pop("per_chunk", 1)
    stamps = [sent + 1, *(first + gap * n for n in range(chunks)), first + gap * (chunks - 1)]
    return RequestRecord(
        **{
            "index": 0,
            "stream": 0,
            "due_ns": int(sent * MS),
            "sent_ns": int(sent * MS),
            "end_ns": int(stamps[-1] * MS),
            "chunk_ns": tuple(int(stamp * MS) for stamp in stamps),
            "chunk_tokens": (0.0, *[float(per_chunk)] * chunks, 0.0),
            "chunk_kinds": (ChunkKind.ROLE, *[ChunkKind.CONTENT] * chunks, ChunkKind.USAGE),
            "prompt_tokens_meant": 10,
            "prompt_tokens": 10,
            "cached_tokens": 4,
            "output_tokens_meant": chunks * per_chunk,
            "output_tokens": chunks * per_chunk,
            "finish": "length",
            "token_source": "one-per-chunk",
        }
        | fields
    )


def window(start: float, end: float) -> Window:
    return Window(int(start * MS), int(end * MS))


def steady(
    streams: int = 4, cycles: int = 40, ttft: float = 50, gap: float = 10, chunks: int = 16
) -> list[RequestRecord]:
    """Streams whose requests follow each other without a break, evenly shifted against each other."""
    cycle = ttft + gap * (chunks - 1)
    return [
        record(sent, sent + ttft, gap, chunks, index=n * streams + stream, stream=stream)
        for stream in range(streams)
        for n in range(cycles)
        for sent in [stream * cycle / streams + n * cycle]
    ]
