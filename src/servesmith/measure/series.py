"""A load over time: tokens/s, memory and failures in bins of equal length. Pure."""

from collections.abc import Sequence

import numpy as np

from servesmith.measure.frame import frame_of
from servesmith.measure.records import RequestRecord, Window
from servesmith.measure.select import inside
from servesmith.measure.steady import token_rates
from servesmith.units import Nanos


def rate_bins(records: Sequence[RequestRecord], window: Window, bins: int) -> tuple[float, ...]:
    """Output tokens/s of `bins` equal parts of the window, by the stamp of each chunk."""
    return tuple(token_rates(frame_of(records), window, bins).tolist())


def memory_bins(samples: Sequence[tuple[Nanos, float]], window: Window, bins: int) -> tuple[float, ...]:
    """Mean MiB of equal parts of the window: `bins` of them, or as many as have two samples each on average."""
    seen = [(stamp, mib) for stamp, mib in samples if inside(stamp, window) and mib > 0]
    bins = min(bins, len(seen) // 2)
    if not bins:
        return ()
    stamps = np.asarray([stamp for stamp, _ in seen], dtype=np.int64)
    edges = _edges(window, bins)
    sums, _ = np.histogram(stamps, edges, weights=np.asarray([mib for _, mib in seen], dtype=np.float64))
    counts, _ = np.histogram(stamps, edges)
    return tuple(float(total / count) for total, count in zip(sums, counts, strict=True) if count)


def failures(records: Sequence[RequestRecord], window: Window, bins: int = 10) -> tuple[list[bool], tuple[int, ...]]:
    """Of requests that ended inside the window: whether each went well; and the failed ones by parts of the window."""
    ended = [record for record in records if record.error != "cancelled" and inside(record.end_ns, window)]
    bad = np.asarray([record.end_ns for record in ended if not record.ok], dtype=np.int64)
    counts, _ = np.histogram(bad, _edges(window, bins))
    return [record.ok for record in ended], tuple(int(count) for count in counts)


def _edges(window: Window, bins: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.linspace(window.start_ns, window.end_ns, bins + 1)
