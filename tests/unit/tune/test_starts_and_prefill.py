"""`start` and `prefill` on the virtual engine: known times, known rates, resuming, and what verify finds."""

import shutil

import msgspec
import pytest
from virtual import case, clock, settings

from servesmith.errors import InputError
from servesmith.measure.prefill import prefill_numbers
from servesmith.measure.records import ChunkKind, RequestRecord
from servesmith.recipe.caches import redirected, variables, without_caches
from servesmith.recipe.model import Recipe, Workload
from servesmith.report.audit import audit
from servesmith.report.page import write_report
from servesmith.report.summary import read_summary
from servesmith.stats.ranges import range_of
from servesmith.store.events import Ranged, TrialEnded
from servesmith.store.journal import JOURNAL, Journal, read_events
from servesmith.store.watch import Silent
from servesmith.tune.open import open_run, resume_run
from servesmith.tune.plan import Plan
from servesmith.tune.prefill import prefill
from servesmith.tune.starts import CACHES, starts


def opened(folder, verb, extra, **flags):
    of = case(**flags)
    of = of.model_copy(update={"workload": Workload(prompt_tokens=500, output_tokens=2)})
    return open_run(Plan(verb=verb, case=of, settings=settings(), extra=extra), folder, Silent(), clock)


def started(of):
    with of.run.journal:
        found = starts(of.run, of.plan.case, int(of.plan.extra["repeats"]))
    write_report(of.run.folder)
    return found


def read(of):
    with of.run.journal:
        found = prefill(of.run, of.plan.case)
    write_report(of.run.folder)
    return found


def test_a_cold_start_takes_what_an_empty_cache_costs(tmp_path):
    of = opened(tmp_path, "start", {"repeats": 5}, **{"cold-start": 2.0, "slow-start": 0.5})
    found = started(of)
    cold, warm = (found.arms[arm]["time_to_health_s"] for arm in ("cold", "warm"))
    assert cold.median == pytest.approx(3.0, rel=0.03)
    assert warm.median == pytest.approx(1.0, rel=0.03)
    assert cold.low <= cold.median <= cold.high
    token = found.arms["warm"]["time_to_first_token_s"]
    assert token.median - warm.median == pytest.approx(0.05, rel=0.1)
    assert all(check.ok for check in audit(of.run.folder))
    assert not (of.run.folder / CACHES).exists()
    summary = read_summary(of.run.folder)
    assert summary.headline.sentence.startswith("First token after 3.0")
    assert "page cache" in summary.notes[0]


def test_cold_and_warm_come_in_turn_with_the_same_variables(tmp_path):
    of = opened(tmp_path, "start", {"repeats": 2})
    started(of)
    results = [event.result for event in read_events(of.run.folder) if isinstance(event, TrialEnded)]
    assert [result.key for result in results] == ["start/cold/1", "start/warm/1", "start/cold/2", "start/warm/2"]
    assert len({result.recipe_hash for result in results}) == 1


def test_a_start_that_fails_ends_the_run_as_failed(tmp_path):
    of = opened(tmp_path, "start", {"repeats": 2}, **{"crash-at-start": True})
    assert started(of) is None
    assert read_events(of.run.folder)[-1].ending == "failed"
    assert all(check.ok for check in audit(of.run.folder))


@pytest.mark.parametrize("verb", ["start", "prefill"])
def test_cut_anywhere_it_goes_on_to_the_same_answer(tmp_path, verb):
    go = started if verb == "start" else read
    extra = {"repeats": 3} if verb == "start" else {"repeats": 3, "prompts": 6, "concurrency": 3}
    of = opened(tmp_path / "whole", verb, extra)
    whole = go(of)
    lines = (of.run.folder / JOURNAL).read_bytes().splitlines(keepends=True)
    for cut in range(1, len(lines), 2):
        folder = tmp_path / "cut" / str(cut) / of.run.folder.name
        shutil.copytree(of.run.folder, folder)
        (folder / JOURNAL).write_bytes(b"".join(lines[:cut]) + lines[cut][:20])
        if verb == "start":  # the recipe names the caches of its own folder, so a run is gone on with where it is
            shutil.rmtree(of.run.folder)
            folder = shutil.move(folder, of.run.folder)
            (folder / CACHES).mkdir(exist_ok=True)
        assert go(resume_run(folder, Silent(), clock, verb)) == whole
        assert all(check.ok for check in audit(folder))


def test_the_rate_of_a_prefill_is_that_of_its_slots(tmp_path):
    """4 slots of 500 tokens, each 50 + 0.1 * 500 = 100 ms: 20,000 tokens/s."""
    of = opened(tmp_path, "prefill", {"repeats": 5, "prompts": 16, "concurrency": 8}, **{"prefill-ms-per-token": 0.1})
    found = read(of)
    assert found.arms["16x500"]["prefill_tokens_per_s"].median == pytest.approx(20_000, rel=0.02)
    assert all(check.ok for check in audit(of.run.folder))
    assert "16 prompts of 500 tokens, 8 at a time" in read_summary(of.run.folder).headline.sentence


def forged(folder, change):
    events = [change(event) for event in read_events(folder)]
    (folder / JOURNAL).unlink()
    with Journal.create(folder, sync=lambda _: None) as journal:
        for event in events:
            journal.append(event)
    return {check.name: check for check in audit(folder)}


def test_a_faster_median_is_found_out(tmp_path):
    of = opened(tmp_path, "prefill", {"repeats": 3, "prompts": 4, "concurrency": 4})
    read(of)

    def change(event):
        if not isinstance(event, Ranged):
            return event
        return Ranged(arms={arm: dict.fromkeys(ranges, range_of([1e9])) for arm, ranges in event.arms.items()})

    assert not forged(of.run.folder, change)["ranges"].ok


def test_a_cold_start_told_as_a_warm_one_is_found_out(tmp_path):
    of = opened(tmp_path, "start", {"repeats": 2}, **{"cold-start": 1.0})
    started(of)
    swap = {"start/cold/1": "start/warm/1", "start/warm/1": "start/cold/1"}

    def change(event):
        if isinstance(event, TrialEnded) and event.result.key in swap:
            return TrialEnded(result=msgspec.structs.replace(event.result, key=swap[event.result.key]))
        return event

    assert "its key says otherwise" in forged(of.run.folder, change)["ranges"].detail


def test_a_server_of_someone_else_cannot_be_started(tmp_path):
    of = case().model_copy(update={"recipe": Recipe(name="x", engine="endpoint", url="http://127.0.0.1:9")})
    with pytest.raises(InputError, match="must restart it"):
        open_run(Plan(verb="start", case=of, settings=settings()), tmp_path, Silent(), clock)


def test_caches_are_sent_elsewhere_and_nothing_else_is_changed(tmp_path):
    recipe = Recipe(name="x", engine="vllm", env={"TRITON_CACHE_DIR": "/mine", "HF_HOME": "/models"})
    sent = redirected(recipe, tmp_path)
    assert sent.env["HF_HOME"] == "/models"
    assert sent.env["TRITON_CACHE_DIR"] == str(tmp_path / "triton")
    assert set(variables("vllm")) <= set(sent.env)
    assert without_caches(sent) == without_caches(recipe)


MS = 1_000_000


def record(index, first_ms, *, cached=0, prompt=100, error=""):
    return RequestRecord(
        index=index, stream=0, due_ns=0, sent_ns=0, end_ns=first_ms * MS, chunk_ns=(first_ms * MS,),
        chunk_tokens=(1.0,), chunk_kinds=(int(ChunkKind.CONTENT),), prompt_tokens_meant=100, prompt_tokens=prompt,
        cached_tokens=cached, output_tokens=1, error=error,
    )  # fmt: skip


def test_cached_tokens_are_not_counted_and_that_is_said():
    numbers = prefill_numbers([record(0, 100), record(1, 200, cached=60)])
    assert numbers["prefill_tokens_per_s"].value == pytest.approx(140 / 0.2)
    assert numbers["prefill_cached_fraction"].value == pytest.approx(0.3)
    assert any("prefix cache" in doubt for doubt in numbers["prefill_tokens_per_s"].doubts)


def test_what_the_server_does_not_say_is_a_doubt():
    numbers = prefill_numbers([record(0, 100, cached=-1, prompt=-1)])
    assert numbers["prefill_tokens_per_s"].value == pytest.approx(1000)
    assert len(numbers["prefill_tokens_per_s"].doubts) == 2
    assert "prefill_cached_fraction" not in numbers


def test_failed_prompts_are_left_out_and_that_is_said():
    numbers = prefill_numbers([record(0, 100), record(1, 900, error="cut")])
    assert numbers["prefill_tokens_per_s"].value == pytest.approx(1000)
    assert "1 of 2 prompts failed" in numbers["prefill_tokens_per_s"].doubts[0]
    assert prefill_numbers([record(0, 100, error="cut")]) == {}


@pytest.mark.parametrize(("starts", "sure"), [(1, 0.0), (3, 0.75), (5, 0.9375), (6, 0.96875)])
def test_how_surely_a_range_holds_the_median(starts, sure):
    assert range_of([1.0] * starts).confidence == sure
