"""The decision about a knee: known answers, error rates under noise, and what holds whatever comes."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servesmith.stats.knee import Knee, KneeRules, Probe, Seen, claim_breaks, claim_keeps, decide, next_level, shares

RULES = KneeRules()


def play(margin, rules=RULES, sd=0.0, draw=None, failed=lambda _: ""):
    """Measure what `decide` asks for until it answers; margins are normal around `margin(level)`."""
    seen = []
    while isinstance(step := decide(seen, rules), Probe):
        why = failed(step.level)
        value = margin(step.level) + (draw.gauss(0, sd) if draw else 0.0)
        seen.append(Seen(level=step.level, stage=step.stage, margins={} if why else {"x": value}, failed=why))
    return step, seen


def cliff(at):
    return lambda level: -0.5 if level <= at else 1.0


@pytest.mark.parametrize("at", [1, 2, 3, 7, 16, 17, 19, 20])
def test_a_cliff_is_found_exactly(at):
    knee, _ = play(cliff(at))
    assert (knee.says, knee.at_least, knee.breaks_at) == ("knee", at, at + 1)


def test_the_cost_is_the_search_and_two_levels_of_repeats():
    _, seen = play(cliff(16))
    assert len(seen) == 10 + 2 * RULES.repeats


@pytest.mark.parametrize("at", [70, 100, 150, 254])
def test_far_up_the_resolution_is_relative(at):
    knee, _ = play(cliff(at))
    assert knee.says == "knee"
    assert knee.at_least <= at < knee.breaks_at <= knee.at_least * 1.05 + 1


def test_nothing_breaks_up_to_the_most():
    knee, _ = play(cliff(10**6), KneeRules(most=40))
    assert (knee.says, knee.at_least, knee.breaks_at, knee.top) == ("at-least", 40, 0, 40)


def test_the_lowest_level_breaks():
    knee, _ = play(cliff(0))
    assert (knee.says, knee.at_least, knee.breaks_at) == ("below", 0, 1)


def test_a_first_level_that_is_too_high_is_bisected_downwards():
    knee, _ = play(cliff(3), KneeRules(first=16))
    assert (knee.at_least, knee.breaks_at) == (3, 4)


def test_a_ladder_is_measured_whole_and_answers_between_its_rungs():
    knee, seen = play(cliff(5), KneeRules(ladder=(1, 2, 4, 8, 16)))
    assert [one.level for one in seen if one.stage == "search"] == [1, 2, 4, 8, 16]
    assert (knee.says, knee.at_least, knee.breaks_at) == ("knee", 4, 8)


def test_levels_at_which_servers_die_are_shown_to_break():
    knee, _ = play(cliff(100), failed=lambda level: "out-of-memory" if level > 12 else "")
    assert (knee.at_least, knee.breaks_at) == (12, 13)


def test_a_client_that_is_too_slow_shows_nothing_about_the_server():
    starts = [Seen(level=9, stage="edge", failed="client-too-slow", ours=True)] * 6
    assert not claim_breaks(starts, 0.05, RULES).shown
    assert not claim_keeps(starts, 0.05, RULES).shown


def test_every_limit_must_be_kept_and_one_is_enough_to_break():
    good = [Seen(level=4, stage="edge", margins={"a": -0.3, "b": -0.2})] * 6
    bad = [Seen(level=4, stage="edge", margins={"a": -0.3, "b": 0.2})] * 6
    assert claim_keeps(good, 0.03, RULES).shown
    assert not claim_breaks(good, 0.03, RULES).shown
    assert claim_breaks(bad, 0.03, RULES).shown
    assert not claim_keeps(bad, 0.03, RULES).shown


def test_too_few_starts_show_nothing():
    few = [Seen(level=4, stage="edge", margins={"a": -0.3})] * 5
    assert not claim_keeps(few, 0.03, RULES).shown


def test_one_failed_start_of_six_is_neither():
    starts = [*[Seen(level=4, stage="edge", margins={"a": -0.3})] * 5, Seen(level=4, stage="edge", failed="crash")]
    assert not claim_keeps(starts, 0.03, RULES).shown
    assert not claim_breaks(starts, 0.03, RULES).shown


def test_the_share_of_starts_is_exact():
    claim = claim_keeps([Seen(level=4, stage="edge", margins={"a": -0.3})] * 6, 0.03, RULES)
    assert claim.share_low == pytest.approx(0.05 ** (1 / 6))


def test_alpha_is_never_overspent():
    assert sum(shares(RULES, number) for number in range(1, 200)) <= 0.05 + 1e-12


@pytest.mark.parametrize(("sd", "slope"), [(0.01, 0.02), (0.03, 0.02), (0.1, 0.02), (0.03, 0.005)])
def test_false_claims_stay_under_their_alpha(sd, slope):
    """Margins rise by `slope` a level; level 19 lies a hair under its limit and 20 a hair over it: the worst case."""
    draw, runs = random.Random(f"{sd}/{slope}"), 400
    answers = [play(lambda level: slope * (level - 19.5) * (1 if abs(level - 19.5) > 1 else 1e-3), sd=sd, draw=draw)[0]
               for _ in range(runs)]  # fmt: skip
    allowed = 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)
    assert sum(knee.at_least > 19 for knee in answers) / runs <= allowed
    assert sum(0 < knee.breaks_at <= 19 for knee in answers) / runs <= allowed


def test_where_every_level_is_exactly_at_its_limit_little_is_claimed():
    draw, runs = random.Random(5), 400
    answers = [play(lambda _: 1e-9, sd=0.03, draw=draw)[0] for _ in range(runs)]
    assert sum(knee.at_least > 0 for knee in answers) / runs <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)


def test_a_knee_of_one_per_cent_noise_is_found_within_two_levels():
    draw, runs = random.Random(6), 100
    answers = [play(lambda level: 0.04 * (level - 20.5), sd=0.01, draw=draw)[0] for _ in range(runs)]
    assert sum(18 <= knee.at_least <= 20 and 21 <= knee.breaks_at <= 24 for knee in answers) >= 0.9 * runs


margins = st.floats(-2, 2)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), sd=st.sampled_from([0.0, 0.05, 0.5]), at=st.integers(0, 70), most=st.integers(1, 64))
def test_it_always_ends_with_an_answer_that_does_not_contradict_itself(seed, sd, at, most):
    draw = random.Random(seed)
    knee, seen = play(lambda level: 0.1 * (level - at), KneeRules(most=most), sd=sd, draw=draw)
    assert isinstance(knee, Knee)
    assert len(seen) <= 2 * math.log2(most) + 3 + 6 * RULES.repeats
    assert not (knee.at_least and knee.breaks_at) or knee.at_least < knee.breaks_at
    draw.shuffle(seen)
    assert decide(seen, KneeRules(most=most)).says == knee.says


@given(st.dictionaries(st.integers(1, 64), st.booleans(), max_size=8))
def test_the_search_never_asks_for_a_level_twice(kept):
    assert next_level(kept, KneeRules(most=64)) not in kept


@pytest.mark.parametrize(
    "wrong", [{"first": 0}, {"most": 0}, {"repeats": 2}, {"confidence": 1.0}, {"ladder": (2, 1)}, {"ladder": (0, 1)}]
)
def test_rules_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match=r"need|rise"):
        KneeRules(**wrong)
