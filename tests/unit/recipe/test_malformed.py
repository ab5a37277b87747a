"""Bad input gives one paragraph with file, line, field and remedy: never a traceback, never only the first error."""

from pathlib import Path

import pytest

from servesmith.errors import InputError, MachineError
from servesmith.recipe.files import bare_url, edit_file, read_case, write_text
from servesmith.recipe.levers import read_levers

GOOD = "name: a\nengine: vllm\nmodel: m\n"

# text of the file, line, field, words that the remedy must hold
RECIPES = {
    "unknown-field": (GOOD + "flgs: {}\n", 4, "flgs", "`flags`"),
    "field-of-a-section": (GOOD + "streams: 8\n", 4, "streams", "below `load:`"),
    "unknown-in-section": (GOOD + "load:\n  stream: 8\n", 5, "load.stream", "`streams`"),
    "no-name": ("engine: vllm\n", 1, "name", "name:"),
    "no-engine": ("name: a\n", 1, "engine", "engine:"),
    "unknown-engine": ("name: a\nengine: lamacpp\n", 2, "engine", "'llamacpp'"),
    "bad-name": ("name: a b\nengine: sim\n", 1, "name", "spaces"),
    "empty-name": ('name: ""\nengine: sim\n', 1, "name", "at least one"),
    "env-float": (GOOD + "env:\n  A: 0.90\n", 5, "env.A", '"0.90"'),
    "env-bool": (GOOD + "env:\n  B: true\n", 5, "env.B", '"true"'),
    "env-int-spelling": (GOOD + "env:\n  C: 0x1F\n", 5, "env.C", '"0x1F"'),
    "env-list": (GOOD + "env: [A=1]\n", 4, "env", "name: value"),
    "flag-without-value": (GOOD + "flags:\n  x:\n", 5, "flags.x", "true for a bare flag"),
    "flag-false": (GOOD + "flags:\n  enable-x: false\n", 5, "flags.enable-x", "no-enable-x: true"),
    "flag-with-dashes": (GOOD + "flags:\n  --max-num-seqs: 8\n", 5, "flags.--max-num-seqs", "`max-num-seqs`"),
    "flag-with-equals": (GOOD + 'flags:\n  "x=1": 2\n', 5, "flags.x=1", "name alone"),
    "flag-list-of-mappings": (GOOD + "flags:\n  x: [{a: 1}]\n", 5, "flags.x", "list of lists"),
    "flag-not-a-number": (GOOD + "flags:\n  x: .nan\n", 5, "flags.x", "Write"),
    "text-for-number": (GOOD + 'load:\n  streams: "8"\n', 5, "load.streams", "without quotes"),
    "fraction-for-whole": (GOOD + "load:\n  streams: 8.5\n", 5, "load.streams", "whole number"),
    "too-small": (GOOD + "load:\n  streams: 0\n", 5, "load.streams", "1 or more"),
    "not-positive": (GOOD + "load:\n  window_s: 0\n", 5, "load.window_s", "above 0"),
    "too-large": (GOOD + "goal:\n  minimum_gain: 1\n", 5, "goal.minimum_gain", "below 1"),
    "bad-choice": (GOOD + "load:\n  starts: slowly\n", 5, "load.starts", "'together'"),
    "section-empty": (GOOD + "load:\n", 4, "load", "Give it a value"),
    "section-is-number": (GOOD + "load: 3\n", 4, "load", "name: value"),
    "scalar-for-list": (GOOD + "gpus: 0\n", 4, "gpus", "[first, second]"),
    "text-in-number-list": (GOOD + "gpus:\n  - 0\n  - one\n", 6, "gpus.1", "digits"),
    "overlay-half": (GOOD + "overlays:\n  - source: a\n", 5, "overlays.0.target", "target:"),
    "limit-not-number": (GOOD + "goal:\n  limits:\n    ttft_p95: 2 s\n", 6, "goal.limits.ttft_p95", "number"),
    "endpoint-without-url": ("name: a\nengine: endpoint\n", 2, "url", "url: http"),
    "endpoint-bad-url": ("name: a\nengine: endpoint\nurl: host:8000\n", 3, "url", "http://"),
    "url-without-endpoint": (GOOD + "url: http://h:1\n", 4, "url", "engine: endpoint"),
    "arrivals-without-rate": (GOOD + "load:\n  arrivals: {}\n", 5, "load.arrivals.rate", "Add `rate:`"),
    "arrivals-unused-field": (
        GOOD + "load:\n  arrivals:\n    rate: 3\n    burstiness: 2\n", 7, "load.arrivals.burstiness", "Delete it"),
    "arrivals-steps-too-short": (
        GOOD + "load:\n  arrivals:\n    process: steps\n    steps: [{rate: 3, seconds: 2}]\n", 7,
        "load.arrivals.steps", "Add a step"),
    "arrivals-all-pauses": (
        GOOD + "load:\n  arrivals:\n    process: steps\n    steps: [{rate: 0, seconds: 99}]\n", 7,
        "load.arrivals.steps", "a rate"),
    "arrivals-drop-unbounded": (
        GOOD + "load:\n  arrivals:\n    rate: 1\n    overload: drop\n", 7, "load.arrivals.overload", "max_in_flight"),
    "arrivals-window-backwards": (
        GOOD + "load:\n  arrivals:\n    process: trace\n    trace: a\n    start_s: 9\n    end_s: 8\n", 9,
        "load.arrivals.end_s", "above 9"),
    "arrivals-trace-without-path": (
        GOOD + "load:\n  arrivals:\n    process: trace\n", 5, "load.arrivals.trace", "Add `trace:`"),
    "step-without-seconds": (
        GOOD + "load:\n  arrivals:\n    steps:\n    - rate: 3\n", 7, "load.arrivals.steps.0.seconds", "seconds:"),
    "lengths-unused-field": (
        GOOD + "workload:\n  prompt_lengths:\n    kind: fixed\n    tokens: 5\n    high: 9\n", 8,
        "workload.prompt_lengths.high", "Delete it"),
    "lengths-incomplete": (
        GOOD + "workload:\n  prompt_lengths:\n    kind: uniform\n", 5, "workload.prompt_lengths.high", "Add `high:`"),
    "lengths-backwards": (
        GOOD + "workload:\n  prompt_lengths:\n    kind: uniform\n    low: 9\n    high: 3\n", 8,
        "workload.prompt_lengths.high", "Exchange"),
    "lengths-mean-outside": (
        GOOD + "workload:\n  output_lengths:\n    kind: lognormal\n    mean: 9\n    high: 3\n", 7,
        "workload.output_lengths.mean", "Widen"),
    "template-without-chat": (
        GOOD + "workload:\n  api: completions\n  chat_template_kwargs: {a: 1}\n", 6,
        "workload.chat_template_kwargs", "api: chat"),
    "two-kinds-of-prefix": (
        GOOD + "workload:\n  shared_prefix_tokens: 3\n  prefixes: {tokens: 3}\n", 6, "workload.prefixes", "Keep one"),
    "dataset-with-lengths": (
        GOOD + "workload:\n  dataset: {path: a}\n  prompt_tokens: 3\n", 6, "workload.prompt_tokens", "Delete it"),
    "inferencex-with-lengths": (
        GOOD + "workload:\n  inferencex: {}\n  output_lengths: {kind: fixed, tokens: 3}\n", 5,
        "workload.inferencex", "output_lengths"),
    "inferencex-with-sessions": (
        GOOD + "workload:\n  inferencex: {}\n  sessions: {}\n", 6, "workload.sessions", "Delete"),
    "unknown-preset": (GOOD + "workload:\n  preset: chat-5\n", 5, "workload.preset", "`chat-5to1`"),
    "preset-is-a-list": (GOOD + "workload:\n  preset: [a]\n", 5, "workload.preset", "Known"),
    "duplicate-key": (GOOD + "model: n\n", 4, "model", "first is line 3"),
    "duplicate-flag": (GOOD + "flags:\n  x: 1\n  x: 2\n", 6, "flags.x", "first is line 5"),
    "tab": (GOOD + "load:\n\tstreams: 8\n", 5, "(syntax)", "spaces"),
    "unclosed-quote": (GOOD + 'url: "abc\n', 5, "(syntax)", "closed quotes"),
    "unclosed-bracket": (GOOD + "gpus: [0, 1\n", 5, "(syntax)", "Correct"),
    "two-colons": (GOOD + "url: a: b\n", 4, "(syntax)", "Correct"),
    "bad-indent": (GOOD + "  url: x\n", 4, "(syntax)", "indentation"),
    "control-character": (GOOD + "url: a\x07\n", 4, "(syntax)", "Remove"),
    "unknown-alias": (GOOD + "env: *base\n", 4, "(syntax)", "Correct"),
    "alias-of-itself": (GOOD + "env: &e\n  A: *e\n", 4, "env.A", "without aliases"),
    "tag": (GOOD + "env: !secret\n  A: b\n", 4, "env", "without a tag"),
    "python-tag": ("name: !!python/object:os.system x\n", 1, "name", "without a tag"),
    "key-is-a-list": (GOOD + "env:\n  [a]: b\n", 5, "env", "name: value"),
    "two-documents": (GOOD + "---\nname: b\n", 5, "(file)", "one mapping"),
    "empty": ("", 1, "(file)", "name:"),
    "only-comments": ("# nothing\n", 1, "(file)", "name:"),
    "a-list": ("- name: a\n", 1, "(file)", "name:"),
    "a-text": ("vllm serve m\n", 1, "(file)", "name:"),
    "too-deep": (GOOD + "flags: {x: " + "[" * 120 + "]" * 120 + "}\n", 4, "flags.x", "Flatten"),
    "far-too-deep": (GOOD + "flags: {x: " + "[" * 600 + "]" * 600 + "}\n", 1, "(file)", "Flatten"),
    "extends-missing": (GOOD + "extends: nowhere.yaml\n", 4, "extends", "relative"),
    "extends-itself": (GOOD + "extends: r.yaml\n", 4, "extends", "circle"),
    "extends-a-list": (GOOD + "extends: [a, b]\n", 4, "extends", "relative"),
    "merge-of-a-text": (GOOD + "env:\n  <<: x\n", 5, "env", "anchor"),
}  # fmt: skip


@pytest.mark.parametrize("case", RECIPES, ids=str)
def test_recipe(case, tmp_path):
    text, line, field, remedy = RECIPES[case]
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_case(path)
    problem = caught.value.problems[0]
    assert (problem.file, problem.line, problem.field) == (str(path), line, field)
    assert remedy in problem.remedy
    assert len(caught.value.problems) == 1
    assert "\n" not in str(problem)
    assert caught.value.exit_code == 2


def test_all_problems_at_once_in_order_of_lines(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("name: a b\nengine: vlm\nflags:\n  x:\n  y: false\nlod: {}\nload:\n  streams: 0\nenv: {A: 1}\n")
    with pytest.raises(InputError) as caught:
        read_case(path, ["load.window_s=-1"])
    problems = caught.value.problems
    assert [problem.line for problem in problems[:-1]] == [1, 2, 4, 5, 6, 8, 9]
    assert problems[-1].file == "--set load.window_s=-1"


def test_a_problem_of_the_base_names_the_base(tmp_path):
    (tmp_path / "base.yaml").write_text("name: a\nengine: vllm\nload: {streams: 0}\n")
    (tmp_path / "r.yaml").write_text("extends: base.yaml\nmodel: m\n")
    with pytest.raises(InputError) as caught:
        read_case(tmp_path / "r.yaml")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(tmp_path / "base.yaml"), 3)


def test_syntax_error_of_the_base_names_the_base(tmp_path):
    (tmp_path / "base.yaml").write_text("name: [\n")
    (tmp_path / "r.yaml").write_text("extends: base.yaml\n")
    with pytest.raises(InputError) as caught:
        read_case(tmp_path / "r.yaml")
    assert caught.value.problems[0].file == str(tmp_path / "base.yaml")


@pytest.mark.parametrize(
    ("setting", "field", "remedy"),
    [
        ("flgs.x=1", "flgs.x", "`flags`"),
        ("flags.x", "flags.x", "--set flags.parallel=8"),
        ("=1", "", "--set"),
        ("flags..x=1", "", "--set"),
        ('flags."x=1', "", "--set"),
        ("flags.x=[1", "flags.x", "brackets"),
        ("load={", "load", "brackets"),
        ("name.x=3", "name.x", "--set name=VALUE"),
        ("load.streams.x=3", "load.streams.x", "--set load.streams=VALUE"),
        ("load.streams=99999999999", "load.streams", "50000 or less"),
        ("load.window_s=1e12", "load.window_s", "or less"),
        ("workload.prompt_tokens=100000000", "workload.prompt_tokens", "10000000 or less"),
        (f"name={'a' * 5000}", "name", "Shorten"),
        ("flags.x=false", "flags.x", "no-x"),
        ("flags.x=null", "flags.x", "bare flag"),
        ("flags.x=", "flags.x", "bare flag"),
        ("load.stream=4", "load.stream", "`streams`"),
        ("load.streams=many", "load.streams", "digits"),
        ("extends=b.yaml", "extends", "Known"),
        ("load=3", "load", "name: value"),
    ],
)
def test_settings(setting, field, remedy, tmp_path):
    (tmp_path / "r.yaml").write_text(GOOD)
    with pytest.raises(InputError) as caught:
        read_case(tmp_path / "r.yaml", [setting])
    (problem,) = caught.value.problems
    assert problem.file == f"--set {setting}"
    assert problem.field == field
    assert remedy in problem.remedy


@pytest.mark.parametrize("what", ["missing", "folder", "binary"])
def test_unreadable(what, tmp_path):
    path = tmp_path / "r.yaml"
    if what == "folder":
        path.mkdir()
    elif what == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError) as caught:
        read_case(path)
    assert caught.value.problems[0].file == str(path)
    assert caught.value.problems[0].remedy


def test_an_edit_that_would_break_the_file_leaves_it_alone(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(GOOD)
    for dotted, value in [("load.streams", 0), ("nothing", 1), ("a..b", 1)]:
        with pytest.raises(InputError):
            edit_file(path, dotted, value)
    assert path.read_text() == GOOD


LEVER = "levers:\n  - name: a\n    why: because\n    risk: lossless\n    set: {flags.x: 1}\n"
LEVERS = {
    "unknown-field": (LEVER + "    bund: 1\n", 6, "levers.0.bund", "`bound`"),
    "unknown-condition": (LEVER + "    when: {min_core: 1}\n", 6, "levers.0.when.min_core", "`min_cores`"),
    "bad-risk": (LEVER.replace("lossless", "safe"), 4, "levers.0.risk", "'lossless'"),
    "no-why": (LEVER.replace("    why: because\n", ""), 2, "levers.0.why", "why:"),
    "nothing-set": (LEVER.replace("{flags.x: 1}", "{}"), 5, "levers.0.set", "flags.parallel"),
    "sets-model": (LEVER.replace("flags.x", "model"), 5, "levers.0.set.model", "flags"),
    "sets-typo": (LEVER.replace("flags.x", "flag.x"), 5, 'levers.0.set."flag.x"', "`flags`"),
    "sets-all-flags": (LEVER.replace("flags.x", "flags"), 5, "levers.0.set.flags", "flags.NAME"),
    "sets-false": (LEVER.replace("x: 1", "x: false"), 5, 'levers.0.set."flags.x"', "null"),
    "env-number": (LEVER.replace("flags.x", "env.X"), 5, 'levers.0.set."env.X"', '"1"'),
    "bad-path": (LEVER.replace("flags.x", "flags..x"), 5, 'levers.0.set."flags..x"', "flags.parallel"),
    "same-name": (LEVER + LEVER.removeprefix("levers:\n"), 6, "levers.1.name", "own name"),
    "excludes-nobody": (LEVER + "    excludes: [paralel-8]\n", 6, "levers.0.excludes", "`parallel-8`"),
    "bad-versions": (LEVER + "    when: {versions: newer}\n", 6, "levers.0.when.versions", ">=0.20"),
    "bad-bound": (LEVER + "    bound: -1\n", 6, "levers.0.bound", "0 or more"),
    "no-levers": ("engine: vllm\n", 1, "levers", "levers:"),
    "duplicate": (LEVER + "    why: again\n", 6, "levers.0.why", "first is line 3"),
    "list-value": (LEVER.replace("x: 1", "x: [[{a: 1}]]"), 5, 'levers.0.set."flags.x"', "list of lists"),
}  # fmt: skip


@pytest.mark.parametrize("case", LEVERS, ids=str)
def test_lever_file(case, tmp_path):
    text, line, field, remedy = LEVERS[case]
    path = tmp_path / "l.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_levers(path)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.field) == (str(path), line, field)
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("http://127.0.0.1:8080", "engine: endpoint"),
        ("https://example.org/v1", "engine: endpoint"),
        ("127.0.0.1:8080", "write http://127.0.0.1:8080"),
        ("my-host.local:80/v1", "write http://my-host.local:80/v1"),
        ("recipe.yaml", "Check the path"),
    ],
)
def test_an_address_in_the_place_of_a_file(name, said):
    with pytest.raises(InputError) as refused:
        read_case(Path(name))
    assert said in str(refused.value)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/chat/completions", "/v1/completions", "/v1/models"])
def test_the_path_of_the_api_is_no_part_of_an_address(tmp_path, path):
    assert bare_url(f"http://host:80{path}") == "http://host:80"
    assert bare_url(f"http://host/proxy{path}") == "http://host/proxy"
    file = tmp_path / "r.yaml"
    file.write_text(f"name: a\nengine: endpoint\nurl: http://host:80{path}\n")
    if path in ("", "/"):
        assert read_case(file).recipe.url
    else:
        with pytest.raises(InputError, match="Write `url: http://host:80`"):
            read_case(file)


def test_a_folder_that_is_not_there_is_to_be_made(tmp_path):
    with pytest.raises(MachineError, match="Make the folder first"):
        write_text(tmp_path / "none" / "r.yaml", "x")
