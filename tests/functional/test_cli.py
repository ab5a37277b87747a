"""The verbs as a user types them: output, exit codes, and what bad input is told."""

import json

import pytest
from shell import TUNE

VERBS = (
    "init", "check", "doctor", "demo", "bench", "compare", "gate", "tune", "ablate", "report", "runs", "clean",
    "verify", "import", "export", "schema", "knee", "prefill", "start", "soak",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(servesmith, verb):
    said = servesmith(verb, "--help")
    assert said.code == 0
    assert f"Example: servesmith {verb}" in said.out


def test_init_prints_the_same_command_back(servesmith):
    words = ["vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "64", "--speculative-config", '{"method":"ngram"}']
    said = servesmith("init", "--", *words)
    assert said.code == 0
    assert "max-num-seqs: 64" in said.out
    assert "the same command: vllm serve Qwen/Qwen3-8B --max-num-seqs 64" in said.err


def test_init_never_replaces_a_file_unasked(servesmith):
    path = servesmith.write("mine.yaml", "name: mine\n")
    said = servesmith("init", "-o", path, "--", "llama-server", "-m", "model.gguf")
    assert said.code == 2
    assert "--force" in said.err
    assert path.read_text() == "name: mine\n"


def test_check_names_the_nearest_flag(servesmith):
    path = servesmith.write("bad.yaml", "name: bad\nengine: sim\nflags: {slot: 8}\n")
    said = servesmith("check", path)
    assert said.code == 1
    assert "slots" in said.out + said.err


def test_check_finds_what_a_tune_would_refuse(servesmith):
    said = servesmith("check", "virtual.yaml", "--set", "goal.metric=speed", "--set", "quality.tasks=[nope]")
    assert said.code == 1
    assert "speed" in said.out + said.err
    assert servesmith("check", "virtual.yaml").code == 0


def test_check_reads_recipes_of_engines_that_are_not_driven_yet(servesmith):
    made = servesmith(
        "init", "-o", "vllm.yaml", "--", "VLLM_USE_V1=1", "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "8"
    )
    assert "the same command: VLLM_USE_V1=1 vllm serve Qwen/Qwen3-8B --max-num-seqs 8" in made.err
    assert servesmith("check", "vllm.yaml").code == 0


def test_check_as_json_is_one_document(servesmith):
    said = servesmith("check", "sim.yaml", "--json")
    assert said.code == 0
    assert said.document["problems"] == []


def test_dry_run_shows_the_command_and_starts_nothing(servesmith):
    said = servesmith("tune", "sim.yaml", *TUNE, "--dry-run")
    assert said.code == 0
    assert "servesmith.engine.simserver" in said.out
    assert not (servesmith.folder / "runs").exists()


def test_bench_measures_and_verifies(servesmith):
    said = servesmith("bench", "sim.yaml", "--json")
    assert said.code == 0, said.err
    metrics = said.document["metrics"]
    assert metrics["output_tokens_per_s"]["value"] > 0
    assert servesmith("verify", servesmith.run_folder()).code == 0


def test_bench_of_a_running_server(servesmith):
    server = servesmith.start_module("servesmith.engine.simserver", "--port", "20417")
    try:
        servesmith.wait_for(20417)
        said = servesmith(
            "bench", "http://127.0.0.1:20417/v1/", "--json", "--set", "load.window_s=1", "--set", "load.warmup_s=0.5",
            "--set", "workload.output_tokens=8", "--set", "workload.prompt_tokens=16",
        )  # fmt: skip
        assert said.code == 0, said.err
        assert said.document["metrics"]["output_tokens_per_s"]["value"] > 0
        assert server.poll() is None, "a server that someone else started was ended"
    finally:
        server.kill()
        server.wait()


def test_a_server_that_is_not_there_leaves_no_run(servesmith):
    said = servesmith("bench", "http://127.0.0.1:9/v1")
    assert said.code == 3
    assert "Nothing listens at 127.0.0.1, port 9" in said.err
    assert not (servesmith.folder / "runs").exists()


def test_bearer_key_is_used_and_never_written(servesmith):
    servesmith.env["MY_KEY"] = "hush-hush-4711"
    path = servesmith.write("keyed.yaml", (servesmith.folder / "sim.yaml").read_text() + "key_env: MY_KEY\n")
    said = servesmith("bench", path)
    assert said.code == 0, said.err
    for file in servesmith.run_folder().rglob("*"):
        assert file.is_dir() or b"hush-hush-4711" not in file.read_bytes(), file
    assert "hush" not in said.out + said.err


def test_compare_finds_what_is_there(servesmith):
    said = servesmith("compare", "virtual.yaml", "virtual.yaml", "--set-b", "flags.slots=8", "--json")
    assert said.code == 0, said.err
    (comparison,) = said.document["comparisons"]
    assert comparison["verdict"]["says"] == "better"


def test_compare_with_require_quality_fails_on_worse_answers(servesmith):
    said = servesmith(
        "compare", "virtual.yaml", "virtual.yaml", "--set-b", "flags.answers-wrong=0.3", "--require-quality"
    )
    assert said.code == 1


def test_gate_says_no_with_exit_code_1(servesmith):
    assert servesmith("gate", "virtual.yaml", "virtual.yaml").code == 0
    assert servesmith("gate", "virtual.yaml", "virtual.yaml", "--set-b", "flags.answers-wrong=0.3").code == 1


def test_gate_on_a_task_the_model_cannot_do_is_powerless_and_fails(servesmith):
    said = servesmith("gate", "virtual.yaml", "virtual.yaml", "--set", "quality.tasks=[yesno]", "--json")
    assert said.code == 1
    assert said.document["gates"][0]["tasks"][0]["says"] == "powerless"


def test_a_dead_server_is_a_failed_trial_with_its_log_line(servesmith):
    said = servesmith("bench", "sim.yaml", "--set", "flags.oom-at-start=true", "--json")
    assert said.code == 1
    (trial,) = said.document["trials"]
    assert trial["ending"] == "failed"
    assert "out-of-memory" in trial["reason"]
    assert "memory" in trial["log_line"]


def test_a_server_without_a_token_is_a_hang(servesmith):
    said = servesmith("bench", "sim.yaml", "--set", "flags.hang-after=2", "--set", "load.first_token_s=1.5", "--json")
    assert said.code == 1
    (trial,) = said.document["trials"]
    assert (trial["ending"], trial["reason"]) == ("failed", "hang")


def test_a_server_that_is_healthy_but_gives_no_token_fails_as_a_hang(servesmith):
    servesmith.write(
        "hang.yaml", (servesmith.folder / "virtual.yaml").read_text().replace("slots: 4", "hang-from-start: true")
    )
    said = servesmith("bench", "hang.yaml")
    assert said.code == 1
    assert "failed" in said.err
    assert "hang" in said.err


def test_runs_report_clean(servesmith):
    assert servesmith("tune", "virtual.yaml", *TUNE).code == 0
    folder = servesmith.run_folder()
    assert folder.name in servesmith("runs").out
    page = (folder / "report.html").read_bytes()
    assert servesmith("clean", folder).code == 0
    assert not (folder / "report.html").exists()
    assert servesmith("report", folder).code == 0
    assert (folder / "report.html").read_bytes() == page
    assert servesmith("clean", "--all", folder).code == 0
    assert not folder.exists()


def test_ablate_a_finished_run(servesmith):
    assert servesmith("tune", "virtual.yaml", *TUNE).code == 0
    said = servesmith("ablate", servesmith.run_folder(), "--runs", "ablations", "--json")
    assert said.code == 0, said.err
    assert [worth["lever"] for worth in said.document["ablation"]] == ["slots-8"]


def test_clean_refuses_what_is_no_run(servesmith, tmp_path):
    (tmp_path / "precious").mkdir()
    said = servesmith("clean", "--all", tmp_path / "precious")
    assert said.code == 2
    assert (tmp_path / "precious").exists()


BAD = [
    (["tune"], "--resume"),
    (["tune", "nothing.yaml"], "nothing.yaml"),
    (["tune", "sim.yaml", "--budget", "soon"], "8m"),
    (["tune", "sim.yaml", "--only", "magic"], "magic"),
    (["tune", "sim.yaml", "--levers", "sim.yaml"], "sim.yaml"),
    (["tune", "--resume", "nowhere"], "nowhere"),
    (["bench", "sim.yaml", "--set", "load.streams=many"], "load.streams"),
    (["bench", "sim.yaml", "--set", "loud.streams=2"], "load"),
    (["bench", "sim.yaml", "--set", "flags.slot=8"], "slots"),
    (["bench", "sim.yaml", "--key-env", "NOT_SET_AT_ALL"], "NOT_SET_AT_ALL"),
    (["bench", "sim.yaml", "--repeats", "0"], "repeats"),
    (["compare", "sim.yaml", "sim.yaml", "--looks", "2,4"], "4"),
    (["compare", "sim.yaml", "sim.yaml", "--looks", "four"], "--looks"),
    (["compare", "sim.yaml"], "Missing"),
    (["compare", "sim.yaml", "sim.yaml", "--set-b", "load.streams=2"], "--set-b load.streams"),
    (["check", "http://127.0.0.1:9"], "engine: endpoint"),
    (["bench", "127.0.0.1:9"], "http://127.0.0.1:9"),
    (["init", "-o", ".", "--force", "--", "vllm", "serve", "M"], "is a folder"),
    (["tune", "--resume", "nowhere", "--budget", "2h"], "--budget"),
    (["init"], "exactly one source"),
    (["init", "--", "rm", "-rf", "here"], "rm"),
    (["init", "--compose", "nothing.yaml"], "nothing.yaml"),
    (["verify", "nowhere"], "nowhere"),
    (["report", "nowhere"], "nowhere"),
    (["frobnicate"], "frobnicate"),
    (["init", "--", "vllm", "serve", "M", "|", "tee", "log"], "shell"),
    (["tune", "virtual.yaml", "--set", "flags.gap-ms=-5"], "gap-ms"),
    (["tune", "virtual.yaml", "--set", "flags.slots=0"], "slots"),
    (["bench", "sim.yaml", "--set", "executable=[nosuch]"], "executable"),
    (["tune", "virtual.yaml", "--set", "goal.metric=speed"], "speed"),
]


@pytest.mark.parametrize(("words", "hint"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_bad_input_is_told_without_a_traceback(servesmith, words, hint):
    said = servesmith(*words)
    assert said.code in (2, 4), said.err
    assert hint in said.err
    assert "Traceback" not in said.err + said.out
    assert said.err.strip()


def test_schema_is_json(servesmith):
    assert json.loads(servesmith("schema").out)["title"] == "servesmith recipe"
