import msgspec
from recorded import record, steady

from servesmith.measure.identity import same_asked, workload_hash

replaced = msgspec.structs.replace


def asked(count: int, **changes):
    return [record(n * 100, n * 100 + 50, 10, 5, index=n, asked=f"{n:016x}", **changes) for n in range(count)]


def test_times_answers_and_order_do_not_count():
    one = asked(5)
    other = [replaced(r, sent_ns=r.sent_ns + 7, end_ns=r.end_ns + 99, text="b", stream=3) for r in reversed(one)]
    assert workload_hash(one) == workload_hash(other)
    assert len(workload_hash(one)) == 16


def test_what_was_asked_counts():
    one = asked(5)
    for change in ({"asked": "f" * 16}, {"prompt_tokens_meant": 11}, {"output_tokens_meant": 6}, {"index": 9}):
        assert workload_hash([*one[:-1], replaced(one[-1], **change)]) != workload_hash(one)
    assert workload_hash(one) != workload_hash(one[:-1])


def test_a_request_that_was_never_sent_was_not_asked():
    one = asked(5)
    assert workload_hash([*one[:-1], replaced(one[-1], error="dropped")]) == workload_hash(one[:-1])


def test_the_faster_server_is_asked_more_of_the_same():
    found = same_asked(asked(5), asked(8))
    assert found.same and found.by_bytes and (found.common, found.only_a, found.only_b) == (5, 0, 3)
    changed = [replaced(r, asked="e" * 16) if r.index == 2 else r for r in asked(8)]
    assert same_asked(asked(5), changed).differing == (2,)
    assert not same_asked(asked(5), changed).same
    assert not same_asked([], []).same


def test_without_digests_only_lengths_are_compared():
    found = same_asked(steady(), steady())
    assert found.same and not found.by_bytes
