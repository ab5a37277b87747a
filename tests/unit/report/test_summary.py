import math
import statistics

import msgspec
import pytest
import rundata
from hypothesis import given
from hypothesis import strategies as st

from servesmith.errors import EvidenceError
from servesmith.report.levers import ablation
from servesmith.report.nouns import Comparison, LeverRow, Summary
from servesmith.report.summary import encode, summarise
from servesmith.report.tables import costs
from servesmith.stats.rules import Rules
from servesmith.stats.sequential import judge
from servesmith.stats.verdict import Verdict
from servesmith.store.events import (
    Decided,
    Discarded,
    Found,
    Gated,
    Kept,
    Noted,
    Proposed,
    RunClosed,
    Screened,
    TrialEnded,
)
from servesmith.store.journal import read_events


@pytest.fixture(scope="module")
def events(tuned):
    return read_events(tuned)


@pytest.fixture(scope="module")
def summary(events) -> Summary:
    return summarise(events)


@pytest.fixture(scope="module")
def two_levers(tmp_path_factory) -> Summary:
    folder = tmp_path_factory.mktemp("two") / "run"
    rundata.tuned_run(folder, ("parallel=8", "batch=1024"))
    return summarise(read_events(folder))


def only(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_the_headline_is_the_proof(summary, events):
    proof = only(events, Decided)[-1]
    head = summary.headline
    assert proof.stage == "prove"
    assert (head.says, head.uplift, head.blocks) == ("better", proof.verdict.effect, 5)
    assert head.sentence == (
        f"The tuned recipe gives {100 * (head.uplift.ratio - 1):.1f} % more output tokens per second than the baseline "
        f"(95 % interval {100 * (head.uplift.low - 1):.1f} % to {100 * (head.uplift.high - 1):.1f} %, "
        "5 pairs of fresh server starts), and the answers are as good (quality gate passed)."
    )


def test_a_run_that_failed_in_its_proof_has_no_result(events):
    failed = msgspec.structs.replace(events[-1], ending="failed", because="prove/block-5/B failed (crash).")
    told = summarise([*events[:-1], failed])
    assert (told.headline.says, told.headline.uplift) == ("none", None)
    assert told.headline.sentence == "The run failed: prove/block-5/B failed (crash)."
    assert costs(told) == []


def test_baseline_and_final_are_medians_over_the_proof(summary, events):
    results = {event.result.key: event.result for event in only(events, TrialEnded)}
    for arm, told in (("A", summary.headline.baseline), ("B", summary.headline.final)):
        values = [results[f"prove/block-{n}/{arm}"].metrics["output_tokens_per_s"].value for n in range(1, 6)]
        assert told == statistics.median(values)


def test_every_block_of_every_decision_is_told(summary, events):
    decisions = only(events, Decided)
    assert [(c.stage, c.subject) for c in summary.comparisons] == [(d.stage, d.subject) for d in decisions]
    for comparison, decided in zip(summary.comparisons, decisions, strict=True):
        assert tuple(point.log_ratio for point in comparison.points) == decided.verdict.log_ratios
        for point in comparison.points:
            assert math.isclose(point.log_ratio, math.log(point.b / point.a))


def test_levers_have_a_fate_and_a_reason(summary):
    fates = {row.name: (row.status, row.stage) for row in summary.levers}
    assert fates == {
        "parallel=8": ("kept", "confirm"),
        "ngram-simple": ("discarded", "confirm"),
        "threads-1": ("discarded", "screen"),
        "flash-attention": ("refused", "propose"),
    }
    assert all(row.because for row in summary.levers)
    assert summary.levers_kept == ("parallel=8",)
    assert summary.levers[1].effect.high < 1


def test_what_got_worse_is_said_by_direction(summary):
    reads = {change.metric: change.reads for change in summary.changes}
    assert reads["output_tokens_per_s"] == reads["ttft_p95_ms"] == "better"
    assert reads["tpot_mean_ms"] == reads["ready_seconds"] == reads["memory_peak_mib"] == "worse"
    assert reads["error_rate"] == "unclear"
    tpot = next(change for change in summary.changes if change.metric == "tpot_mean_ms")
    assert tpot.effect.ratio > 1.2, "the plain ratio, not turned round"


def test_a_metric_of_zero_has_no_ratio(summary):
    errors = next(change for change in summary.changes if change.metric == "error_rate")
    assert (errors.baseline, errors.final, errors.effect) == (0.0, 0.0, None)


def test_with_one_kept_lever_the_proof_is_its_ablation(summary):
    (worth,) = summary.ablation
    assert (worth.lever, worth.source, worth.effect) == ("parallel=8", "prove", summary.headline.uplift)


def test_with_two_kept_levers_each_has_its_own_worth(two_levers):
    assert [(worth.lever, worth.source) for worth in two_levers.ablation] == [
        ("parallel=8", "ablate"),
        ("batch=1024", "ablate"),
    ]
    product = math.prod(worth.effect.ratio for worth in two_levers.ablation)
    assert math.isclose(product, two_levers.headline.uplift.ratio, rel_tol=0.05)


def test_worths_are_held_to_holm_over_all_levers(two_levers):
    assert [worth.holds for worth in two_levers.ablation] == [True, True]


def worths(ratios) -> list[bool]:
    comparisons = tuple(
        Comparison(stage="ablate", subject=name, unit="", better="higher", points=(), trials=(),
                   verdict=judge(values, "m", Rules(looks=(4,))))
        for name, values in ratios.items()
    )  # fmt: skip
    rows = tuple(LeverRow(name=name, status="kept", stage="confirm", because="") for name in ratios)
    return [worth.holds for worth in ablation(comparisons, rows, 0.010)]


def test_a_worth_that_is_better_alone_may_not_hold_among_several():
    just = (0.020, 0.030, 0.045, 0.025)
    nothing = (0.01, -0.01, 0.01, -0.01)
    assert judge(just, "m", Rules(looks=(4,))).says == "better"
    assert worths({"a": just}) == [True]
    assert worths({"a": just, "b": nothing}) == [False, False]
    assert worths({"a": just, "b": (0.30, 0.31, 0.29, 0.30)}) == [True, True], "step down: the larger p has the whole"
    assert worths({"a": just, "b": (0.3,)}) == [False, False]


def test_failed_trials_are_told_with_their_log_line(summary):
    (bad,) = [trial for trial in summary.trials if trial.ending != "ok"]
    assert (bad.reason, bad.log_line) == ("crash", "terminate: bad thread pool")
    assert summary.time.trials == len(summary.trials)
    assert math.isclose(summary.time.seconds, sum(trial.seconds for trial in summary.trials))


def test_notes_noise_and_gate_are_told(summary, events):
    assert summary.notes == tuple(event.note for event in only(events, Noted))
    assert summary.noise.sd > 0
    assert [gate.subject for gate in summary.gates] == ["parallel=8", "final"]


def test_a_gate_that_did_not_pass_stands_in_the_headline(events):
    changed = [
        msgspec.structs.replace(event, passed=False, because="sort vetoes.") if isinstance(event, Gated) else event
        for event in events
    ]
    sentence = summarise(changed).headline.sentence
    assert sentence.endswith("Do not use it: the quality gate did not pass (sort vetoes).")


def test_a_gate_of_another_recipe_says_nothing_of_the_final_one(events):
    changed = [
        msgspec.structs.replace(event, recipe_hash="0" * 16) if isinstance(event, Gated) else event for event in events
    ]
    assert summarise(changed).headline.sentence.endswith("Whether the answers are as good was not tested.")


def test_a_look_that_a_later_one_continued_is_told_once(events):
    proof = only(events, Decided)[-1]
    first = msgspec.structs.replace(
        proof,
        trials=proof.trials[:8],
        verdict=Verdict(says="undecided", metric=proof.verdict.metric, effect=None, blocks=4, because="waiting"),
    )
    at = list(events).index(proof)
    told = summarise([*events[:at], first, *events[at:]])
    assert [c.verdict.blocks for c in told.comparisons if c.stage == "prove"] == [5]


def test_a_lever_kept_without_a_settled_worth_is_undecided(events):
    late = Kept(lever="parallel=8", because="its worth is not settled", undecided=True)
    told = summarise([*events[:-1], late, events[-1]])
    assert {row.name: row.status for row in told.levers}["parallel=8"] == "undecided"
    assert told.levers_kept == ("parallel=8",)


def test_a_lever_that_the_ablation_drops_is_not_kept(events):
    dropped = Discarded(lever="parallel=8", because="no loss without it", stage="ablate")
    told = summarise([*events[:-1], dropped, events[-1]])
    assert told.levers_kept == ()
    assert ("discarded", "ablate") in {(row.status, row.stage) for row in told.levers if row.name == "parallel=8"}


def test_a_finding_that_a_later_round_repeats_is_told_once(events):
    found = only(events, Found)
    again = msgspec.structs.replace(found[0], levers=())
    assert summarise([*events[:-1], again, events[-1]]).findings == tuple(found)


def test_compare_speaks_of_a_and_b(tmp_path):
    rundata.compared_run(tmp_path / "run")
    head = summarise(read_events(tmp_path / "run")).headline
    assert head.says == "worse"
    assert head.sentence.startswith("B gives 1")
    assert "% less output tokens per second than A" in head.sentence


def test_doubts_that_differ_in_numbers_only_are_told_once(tmp_path):
    rundata.compared_run(tmp_path / "run")
    doubts = summarise(read_events(tmp_path / "run")).doubts
    assert len([doubt for doubt in doubts if doubt.startswith("Little's law")]) == 1


def test_bench_gives_its_number_and_compares_nothing(tmp_path):
    run = rundata.benched_run(tmp_path / "run")
    told = summarise(read_events(tmp_path / "run"))
    assert told.headline.final == run.results["bench/1"].metrics["output_tokens_per_s"].value
    assert "nothing was compared" in told.headline.sentence
    assert told.metrics["ready_seconds"].value == run.results["bench/1"].ready_seconds
    assert (told.changes, told.levers, told.comparisons) == ((), (), ())


def test_a_bench_that_failed_says_why(tmp_path):
    rundata.benched_run(tmp_path / "run", failure="out-of-memory")
    told = summarise(read_events(tmp_path / "run"))
    assert told.headline.sentence == "The trial failed: out-of-memory. The log says: ggml: out of memory"
    assert told.ending == "failed"


def test_a_run_that_was_cut_is_unfinished(tmp_path):
    rundata.cut_run(tmp_path / "run")
    told = summarise(read_events(tmp_path / "run"))
    assert (told.ending, told.headline.says) == ("unfinished", "none")
    assert told.headline.sentence == "This run is not finished: 9 trials so far, and no result yet."
    assert {row.name: row.status for row in told.levers} == {"parallel=8": "open", "batch=1024": "open"}


def fruitless(folder, levers=("ngram-simple",), blocks=0) -> Summary:
    """A tune that kept nothing; the first lever was in so many blocks."""
    run = rundata.FakeRun(folder)
    run.noise()
    run.add(Proposed(levers=levers, refused={}))
    run.add(Screened(scores=dict.fromkeys(levers, 0.0), kept=levers[:1], dropped=dict.fromkeys(levers[1:], "slow")))
    if blocks:
        run.decide("confirm", levers[0], run.blocks("confirm", (), (levers[0],), blocks))
        run.add(Discarded(lever=levers[0], because="worse", stage="confirm"))
    run.add(RunClosed(ending="done", because="No lever was shown to pay.", recipe_hash="x"))
    run.journal.close()
    return summarise(read_events(folder))


def test_a_search_without_blocks_claims_no_gain_that_it_would_have_seen(tmp_path):
    head = fruitless(tmp_path / "run").headline
    assert head.detectable == 0
    assert head.sentence == "Nothing was shown to beat the baseline. 1 lever was never compared in blocks."


def test_what_would_have_been_seen_is_said_of_levers_in_blocks_alone(tmp_path):
    told = fruitless(tmp_path / "run", ("ngram-simple", "batch=1024", "parallel=8"), blocks=4)
    (comparison,) = told.comparisons
    seen = f"{100 * comparison.verdict.detectable:.1f} %"
    assert told.headline.detectable == 0
    assert told.headline.sentence == (
        f"Nothing was shown to beat the baseline. Most likely seen would have been a gain of at least {seen} from "
        "ngram-simple. 2 levers were never compared in blocks."
    )


def test_two_blocks_are_no_comparison(tmp_path):
    assert fruitless(tmp_path / "run", blocks=2).headline.sentence.endswith("1 lever was never compared in blocks.")


def test_a_lever_that_was_better_but_not_kept_is_not_denied(tmp_path):
    assert fruitless(tmp_path / "run", ("parallel=8",), blocks=4).headline.sentence == "No lever was kept."


def test_events_that_open_no_run_are_refused(events):
    with pytest.raises(EvidenceError, match=r"journal\.jsonl"):
        summarise(events[1:])


def test_the_summary_survives_its_own_json(summary):
    data = encode(summary)
    assert msgspec.json.decode(data, type=Summary) == summary
    assert data == encode(summarise_again(summary, data))


def summarise_again(summary, data):
    return msgspec.json.decode(data, type=type(summary))


@given(st.integers(min_value=1))
def test_a_cut_journal_can_always_be_told(events_of_cut, cut):
    """Killed anywhere, a run can be shown: every prefix of a journal has a summary."""
    prefix = events_of_cut[: 1 + cut % len(events_of_cut)]
    assert encode(summarise(prefix))


@pytest.fixture(scope="module")
def events_of_cut(events):
    return events


def test_only_what_a_log_says_is_put_down_to_the_log(tmp_path):
    def sentence(failure: str) -> str:
        run = rundata.benched_run(tmp_path / failure, failure=failure)
        return summarise(read_events(run.folder)).headline.sentence

    assert "The log says: ggml: out of memory" in sentence("out-of-memory")
    assert sentence("requests-failed") == "The trial failed: requests-failed: ggml: out of memory."


def compared(a, b, better="higher"):
    """A compare of blocks with these values."""
    from servesmith.report.headline import _effect_sentence
    from servesmith.report.nouns import Point
    from servesmith.stats.sample import log_ratios

    logs = log_ratios(a, b, better)
    points = tuple(Point(n, *values) for n, values in enumerate(zip(a, b, logs, strict=True), start=1))
    verdict = judge(logs, "output_tokens_per_s", Rules(looks=(4,)))
    return verdict.says, _effect_sentence(
        Comparison(stage="compare", subject="b", unit="tokens/s", better=better, points=points, trials=(),
                   verdict=verdict)
    )  # fmt: skip


def test_an_undecided_comparison_tells_an_estimate_and_not_a_gain():
    says, sentence = compared((100.0, 90.0, 110.0, 100.0), (120.0, 80.0, 150.0, 104.0))
    assert says == "undecided"
    assert sentence.startswith("No difference was shown between B and A: the estimate is 10.9 % more output tokens")
    assert "it gave" not in sentence
    assert "other way" not in sentence


def test_medians_that_contradict_the_estimate_are_named():
    says, sentence = compared((74.0, 20.0, 75.0, 73.0), (41.0, 120.0, 42.0, 40.5))
    assert says == "undecided"
    assert "the estimate is 0.8 % more" in sentence
    assert "the medians, 73.5 tokens/s and 41.5 tokens/s, point the other way" in sentence


def test_a_bench_tells_how_many_of_its_trials_failed(tmp_path):
    def sentence(*failures: str) -> str:
        run = rundata.benched_thrice(tmp_path / "-".join(failures), failures)
        return summarise(read_events(run.folder)).headline.sentence

    assert "(1 of 3 trials; 2 failed: hang; nothing was compared)" in sentence("hang", "", "hang")
    assert "(2 of 3 trials; 1 failed: crash; nothing was compared)" in sentence("", "crash", "")
    assert "(median of 2 trials; nothing" in sentence("", "")


def test_numbers_of_several_trials_are_medians_like_the_sentence(tmp_path):
    run = rundata.benched_thrice(tmp_path / "run", ("", "hang", "", ""))
    told = summarise(read_events(run.folder))
    good = [result for result in run.results.values() if result.ending == "ok"]
    assert told.metrics_trials == 3
    for key, metric in told.metrics.items():
        if key != "ready_seconds":
            assert metric.value == statistics.median(
                result.metrics[key].value for result in good if key in result.metrics
            )
    assert told.metrics["output_tokens_per_s"].value == told.headline.final
    assert told.metrics["ready_seconds"].value == statistics.median(result.ready_seconds for result in good)
    assert any("(3 of 3 trials)" in doubt for doubt in told.metrics["ttft_p99_ms"].doubts)
