"""What is wrong with a plan is said before anything is made or measured."""

import msgspec
import pytest
from virtual import SLOTS, case, clock, lever, settings

from servesmith.cli import show
from servesmith.errors import InputError, MachineError
from servesmith.recipe.model import Case, Goal, Quality, Recipe
from servesmith.store.watch import Silent
from servesmith.tune.open import open_run
from servesmith.tune.plan import Plan
from servesmith.tune.preflight import preflight
from servesmith.tune.preview import preview


def plan(verb="tune", of=None, levers=(), **more):
    return Plan(verb=verb, case=of or case(), settings=settings(), levers=tuple(levers), file="r.yaml", **more)


def fields(plan):
    with pytest.raises(InputError) as caught:
        preflight(plan)
    assert all(problem.remedy for problem in caught.value.problems)
    return [(problem.file, problem.field) for problem in caught.value.problems]


def with_(**changes):
    return case().model_copy(update=changes)


def test_a_sound_plan_passes():
    preflight(plan(levers=[SLOTS]))
    preflight(plan("compare", rival=case(slots=8)))


def test_unknown_metrics_everywhere_at_once():
    goal = Goal(metric="output_tokens", limits={"ttft_p96_ms": 2.0, "error_rate": 0.1})
    odd = SLOTS.model_copy(update={"secondary": "speed"})
    assert fields(plan(of=with_(goal=goal), levers=[odd])) == [
        ("r.yaml", "goal.metric"),
        ("r.yaml", "goal.limits.ttft_p96_ms"),
        ("lever slots-8", "secondary"),
    ]


def test_every_lever_that_the_engine_refuses():
    levers = [lever("one", slotz=8), SLOTS, lever("two", gap_ms="fast")]
    assert fields(plan(levers=levers)) == [("lever one", "flags.slotz"), ("lever two", "flags.gap-ms")]


def test_a_lever_for_another_engine_is_not_judged():
    other = lever("other", slotz=8)
    preflight(plan(levers=[other.model_copy(update={"when": other.when.model_copy(update={"engines": ("vllm",)})})]))


def test_both_recipes_and_their_files():
    wrong = case(slotz=8)
    assert fields(plan("compare", wrong, rival=case(gapp=1), rival_file="b.yaml")) == [
        ("r.yaml", "flags.slotz"),
        ("b.yaml", "flags.gapp"),
    ]


@pytest.mark.parametrize(
    ("quality", "field"),
    [
        (Quality(tasks=("nonsense",)), "quality.tasks"),
        (Quality(tasks=("arithmetic",), items=100_000), "quality"),
        (Quality(margin=0.02), "quality"),
    ],
)
def test_a_gate_that_could_not_be_asked(quality, field):
    of = with_(quality=quality)
    for verb in ("tune", "gate"):
        assert fields(plan(verb, of)) == [("r.yaml", field)]
    assert fields(plan("compare", of, rival=case(), require_quality=True)) == [("r.yaml", field)]
    preflight(plan("compare", of, rival=case()))
    preflight(plan("bench", of))


@pytest.mark.parametrize("verb", ["tune", "ablate"])
def test_a_server_of_someone_else_is_not_restarted(verb):
    endpoint = Case(recipe=Recipe(name="e", engine="endpoint", url="http://127.0.0.1:1"))
    assert fields(plan(verb, endpoint)) == [("r.yaml", "engine")]
    preflight(plan("bench", endpoint))
    preflight(plan("compare", endpoint, rival=endpoint))
    assert "someone else" in preview(plan("bench", endpoint)).commands["e"]


def test_nothing_is_made_for_a_bad_plan(tmp_path):
    bad = plan(of=with_(goal=Goal(metric="x")))
    with pytest.raises(InputError):
        open_run(bad, tmp_path, Silent(), clock)
    with pytest.raises(InputError):
        preview(bad)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_the_machines_fault(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="--runs"):
        open_run(plan(), tmp_path / "file" / "runs", Silent(), clock)


@pytest.mark.parametrize(("model", "said"), [
    ("nowhere/model.gguf", "There is no nowhere/model.gguf on this machine"),
    ("package:no_such_package_here/m.gguf", "no_such_package_here is not installed"),
    ("", "No model is named"),
])  # fmt: skip
def test_a_model_that_is_not_here_is_told_before_any_start(tmp_path, model, said):
    of = Case(recipe=Recipe(name="m", engine="llamacpp", model=model))
    for verb in ("bench", "tune"):
        with pytest.raises(InputError, match=said) as refused:
            open_run(plan(verb, of), tmp_path / "runs", Silent(), clock)
        assert [(problem.file, problem.field) for problem in refused.value.problems] == [("r.yaml", "model")]
    assert not (tmp_path / "runs").exists()


def test_a_command_of_the_users_own_may_take_its_model_from_elsewhere():
    wrapped = Recipe(name="m", engine="llamacpp", model="/models/m.gguf", executable=("sh", "serve.sh"))
    preflight(plan("bench", Case(recipe=wrapped)))


def test_a_compares_plan_gives_its_blocks_and_its_time(capsys):
    show.preview(preview(plan("compare", rival=case(slots=8), require_quality=True)), as_json=False)
    told = capsys.readouterr().out
    assert "two requests alone" in told
    assert "4 to 12 blocks of two trials each: 1 min 04 s to 3 min 12 s of measuring" in told
    assert "quality gate: 3 trials" in told
    assert "budget" not in told
    limited = msgspec.structs.replace(plan("compare", rival=case(slots=8)), settings=settings(budget_s=90.0))
    show.preview(preview(limited), as_json=False)
    assert "the budget of 1 min 30 s for trials may end it earlier" in capsys.readouterr().out
    show.preview(preview(plan("bench")), as_json=False)
    assert "blocks" not in capsys.readouterr().out


def test_an_image_is_not_silently_left_out():
    recipe = case().recipe.model_copy(update={"image": "ghcr.io/ggml-org/llama.cpp:server"})
    assert fields(plan("bench", with_(recipe=recipe))) == [("r.yaml", "image")]


def test_metrics_that_need_something_of_the_goal():
    for key, given in (
        ("goodput_requests_per_s", {"request_limits": {"ttft_ms": 200}}),
        ("output_tokens_per_s_per_gpu", {"gpus": 2}),
        ("cost_per_1m_output_tokens", {"price_per_hour": 2.5}),
    ):
        assert fields(plan(of=with_(goal=Goal(metric=key)))) == [("r.yaml", "goal.metric")]
        preflight(plan(of=with_(goal=Goal(metric=key, **given))))
