"""Commands that people run: what recipe they become, and that the same command comes back."""

import shlex

import pytest

from servesmith.errors import InputError
from servesmith.recipe.command import command_line, command_of, render_flags, shell_line
from servesmith.recipe.files import dump_case, read_case
from servesmith.recipe.importers import recipe_from_command, recipe_from_shell
from servesmith.recipe.model import Case

SAME = [
    "vllm serve Qwen/Qwen3-8B --max-num-seqs 64",
    "vllm serve Qwen/Qwen3-8B",
    "/opt/venv/bin/vllm serve /models/qwen --tensor-parallel-size 8 --gpu-memory-utilization 0.95",
    "vllm serve m --no-enable-prefix-caching --trust-remote-code --port 8000",
    'vllm serve m --speculative-config \'{"method":"ngram","num_speculative_tokens":3}\'',
    'vllm serve m --hf-overrides \'{"rope_scaling":  {"factor": 4.0}}\'',
    "vllm serve m --speculative-config.method ngram --speculative-config.num_speculative_tokens 3",
    "vllm serve m -O3 -tp 4 -dp 2",
    "vllm serve m --lora-modules a=/a b=/b --max-lora-rank 64",
    "vllm serve m --api-server-count 1 --seed -1 --swap-space 0.90 --x 007 --y 1e5 --z +3",
    "vllm serve m --chat-template-content-format= --served-model-name 'my model'",
    "vllm serve --model m --dtype bfloat16",
    "vllm serve --config /etc/vllm.yaml",
    "python -m vllm.entrypoints.openai.api_server --model m --enable-chunked-prefill",
    "python3.12 -u -m vllm.entrypoints.openai.api_server --model m",
    "numactl --cpunodebind=0 --membind=0 vllm serve m --swap-space 4",
    "llama-server -m /models/x.gguf -np 4 -c 8192 --port 8080",
    "./build/bin/llama-server --model x.gguf --parallel 8 --temp -1 --no-mmap",
    "llama-server -hf ggml-org/gemma-3-1b-it-GGUF:Q8_0 --flash-attn on",
    "python -m sglang.launch_server --model-path m --tp 2 --host 0.0.0.0",
    "python3 -m sglang.launch_server --model m --mem-fraction-static 0.8",
    "sglang serve --model-path m --attention-backend fa3",
    "docker run --gpus all --ipc=host vllm/vllm-openai:v0.11.0 --model m --max-num-seqs 64",
    "docker run --runtime nvidia -p 8000:8000 vllm/vllm-openai:latest Qwen/Qwen3-0.6B",
    "docker run --gpus all -v /a:/a -v /b:/b:ro --shm-size 32g -e HF_HOME=/a lmsysorg/sglang:latest "
    "python3 -m sglang.launch_server --model-path m --tp 8",
    "docker run -it --rm --device=/dev/kfd --device=/dev/dri --group-add video --security-opt seccomp=unconfined "
    "-e VLLM_ROCM_USE_AITER=1 -e A= rocm/vllm:latest vllm serve m --max-num-seqs 1024",
    "podman run --device nvidia.com/gpu=all --entrypoint vllm docker.io/vllm/vllm-openai serve m -tp 2",
    "docker run --ulimit memlock=-1 --ulimit stack=67108864 -p 8080:8080 ghcr.io/ggml-org/llama.cpp:server -m /m.gguf",
    "docker run -d --name llm -e HF_TOKEN vllm/vllm-openai@sha256:0123456789abcdef --model m",
]


def spread(words):
    """`--a=b` as two words; compact JSON: the two things that may differ."""
    out = []
    for word in words:
        flag, equals, value = word.partition("=")
        out += [flag, value] if equals and flag.startswith("-") else [word]
    return out


@pytest.mark.parametrize("line", SAME)
def test_same_command_back(line):
    words = shlex.split(line)
    recipe = recipe_from_command(words).recipe
    assert spread(command_of(recipe)) == spread(words)


@pytest.mark.parametrize("line", SAME)
def test_through_the_file_and_the_shell(line, tmp_path):
    recipe = recipe_from_shell(line).recipe
    path = tmp_path / "r.yaml"
    path.write_text(dump_case(Case(recipe=recipe)))
    assert read_case(path).recipe == recipe
    assert recipe_from_shell(command_line(recipe)).recipe == recipe


def test_values_keep_what_they_are():
    flags = recipe_from_shell(
        "vllm serve m --a 64 --b 0.95 --c 0.90 --d 007 --e true --f --g -1 --h -0 --i 1 2 --j=x=y --k 1 --k 2 3 --k "
        "--l 'two words' --m '' --n nan --o 1e-05 --p '- a'"
    ).recipe.flags
    assert flags == {
        "a": 64,
        "b": 0.95,
        "c": "0.90",
        "d": "007",
        "e": "true",
        "f": True,
        "g": -1,
        "h": "-0",
        "i": [1, 2],
        "j": "x=y",
        "k": [[1], [2, 3], []],
        "l": "two words",
        "m": "",
        "n": "nan",
        "o": 1e-05,
        "p": "- a",
    }
    assert [type(flags[key]) for key in "abf"] == [int, float, bool]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"a":1,"b":{"c":null}}', {"a": 1, "b": {"c": None}}),
        ('{"a": 1, "b": [1, 2]}', {"a": 1, "b": [1, 2]}),
        ('{"ä":"ü"}', {"ä": "ü"}),
        ('{ "a": 1 }', '{ "a": 1 }'),
        ('{"a":1,"a":2}', '{"a":1,"a":2}'),
        ('{"a":0.90}', '{"a":0.90}'),
        ('{"a":NaN}', '{"a":NaN}'),
        ("{not json}", "{not json}"),
        ("[1,2]", "[1,2]"),
    ],
)
def test_json(text, kept):
    recipe = recipe_from_command(["vllm", "serve", "m", "--j", text]).recipe
    assert recipe.flags == {"j": kept}


def test_dash_values_take_equals_except_for_llama_server():
    assert render_flags({"a": "-x", "b": -1, "-c": "-y"}, equals=True) == ["--a=-x", "--b", "-1", "-c=-y"]
    assert render_flags({"a": "-x"}, equals=False) == ["--a", "-x"]
    assert recipe_from_shell("vllm serve m --a=-x").recipe.flags == {"a": "-x"}


def test_false_is_refused():
    with pytest.raises(InputError, match="no-x: true"):
        render_flags({"x": False}, equals=True)


@pytest.mark.parametrize(
    "line",
    [
        "A=1 B='x y' vllm serve m --f 1",
        "env A=1 B='x y' vllm serve m --f 1",
        """bash -c "A=1 B='x y' exec vllm serve m --f 1" """,
        """A=1 env 'B=x y' bash -lc 'vllm serve m --f $A'""",
        "A=1 B='x y' vllm serve \\\n  m \\\r\n  --f 1",
    ],
)
def test_environment_and_shells_around(line):
    recipe = recipe_from_shell(line).recipe
    assert recipe.env == {"A": "1", "B": "x y"}
    assert recipe.model == "m"
    assert recipe.flags == {"f": 1}
    assert command_line(recipe) == "A=1 B='x y' vllm serve m --f 1"


def test_a_command_in_one_word():
    assert recipe_from_command(["vllm serve m --f 'a b'"]).recipe.flags == {"f": "a b"}


def test_bash_as_entrypoint_becomes_the_command():
    line = "docker run --entrypoint bash vllm/vllm-openai:v1 -c 'A=1 exec vllm serve m --x 1'"
    recipe = recipe_from_shell(line).recipe
    assert shlex.join(command_of(recipe)) == "docker run --entrypoint vllm -e A=1 vllm/vllm-openai:v1 serve m --x 1"


def test_attached_short_options():
    recipe = recipe_from_shell("docker run -p8000:80 -eA=b -v=/x:/y vllm/vllm-openai --model m").recipe
    assert recipe.container == {"-p": "8000:80", "-v": "/x:/y"}
    assert recipe.env == {"A": "b"}


def test_secrets_of_a_process_are_dropped_and_said():
    imported = recipe_from_shell("HF_TOKEN=hf_abc VLLM_API_KEY=k MAX_TOKENS=5 vllm serve m --api-key sk-1 --f 1")
    assert imported.recipe.env == {"MAX_TOKENS": "5"}
    assert imported.recipe.flags == {"f": 1}
    assert len(imported.notes) == 3
    assert not any(secret in str(imported) for secret in ("hf_abc", "sk-1"))


def test_secrets_of_a_container_come_from_our_environment():
    line = "docker run -e HF_TOKEN=hf_abc -e A=1 -e API_KEY=k vllm/vllm-openai --model m"
    imported = recipe_from_shell(line)
    words = command_of(imported.recipe)
    assert words[:6] == ["docker", "run", "-e", "HF_TOKEN", "-e", "API_KEY"]
    assert "hf_abc" not in str(imported)


def test_secret_variable_in_a_shell_stays_a_name():
    imported = recipe_from_shell("HF_TOKEN=hf_abc bash -c 'vllm serve m --api-key $HF_TOKEN --x \"$HF_TOKEN\"'")
    assert imported.recipe.flags == {"x": "$HF_TOKEN"}


def test_shell_line_shows_no_secret():
    assert shell_line(["x", "a b"], {"HF_TOKEN": "hf_abc", "A": "1 2"}) == "HF_TOKEN=\"$HF_TOKEN\" A='1 2' x 'a b'"


def test_sudo_is_left_out_and_said():
    imported = recipe_from_shell("sudo docker run vllm/vllm-openai --model m")
    assert command_of(imported.recipe)[0] == "docker"
    assert "sudo" in imported.notes[0]


@pytest.mark.parametrize(
    ("model", "name"), [("Qwen/Qwen3-8B", "Qwen3-8B"), ("/m/x y.gguf", "x-y.gguf"), ("...", "recipe")]
)
def test_name_from_model(model, name):
    assert recipe_from_command(["vllm", "serve", model]).recipe.name == name


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "starts no engine"),
        ("ollama serve", "starts no engine"),
        ("python train.py", "starts no engine"),
        ("python -m http.server", "starts no engine"),
        ("vllm serve --tensor-parallel-size 8 m", "right after"),
        ("vllm serve m extra --x", "belongs to no flag"),
        ("vllm serve m --x=1 y", "belongs to no flag"),
        ("llama-server x.gguf", "belongs to no flag"),
        ("vllm serve m | tee log", "a pipe"),
        ("vllm serve m > log 2>&1", "a redirection"),
        ("cd /x && vllm serve m", "`&`"),
        ("vllm serve m &", "`&`"),
        ("source a; vllm serve m", "`;`"),
        ("vllm serve m\nvllm serve n", "more than one line"),
        ("vllm serve $MODEL", "$MODEL"),
        ('vllm serve "${MODEL}"', "$MODEL"),
        ("vllm serve `cat m`", "a command substitution"),
        ("vllm serve $(cat m)", "an expansion"),
        ("vllm serve 'm", "Close every quote"),
        ("bash start.sh", "a script"),
        ("bash -c 'a && vllm serve m'", "`&`"),
        ("bash -c 'vllm serve $1' _ m", "a script"),
        ("docker compose up", "how a server is started"),
        ("docker run --gpus all", "Names no image"),
        ("docker run -p", "has no value"),
        ("docker run ubuntu:24.04 sleep 1", "starts no engine"),
        ("docker run --entrypoint sleep vllm/vllm-openai 1", "starts no engine"),
        ("env -i vllm serve m", "starts no engine"),
    ],
)
def test_refused_with_a_remedy(line, says):
    with pytest.raises(InputError) as caught:
        recipe_from_shell(line)
    (problem,) = caught.value.problems
    assert says in str(problem)
    assert problem.remedy
    assert problem.file == "command line"
    assert problem.line == 1
    assert problem.field or not line


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(InputError, match="UTF-8"):
        recipe_from_command(["vllm", "serve", "m\udcff"])


def test_bad_name_is_refused():
    with pytest.raises(InputError, match="Leave out spaces"):
        recipe_from_command(["vllm", "serve", "m"], "a b")


def test_quotes_and_escapes_as_in_a_shell():
    line = r"""vllm serve m --a "x \"y\" \$5 \\" --b 'x $y | z' --c x\ y --d "it's" """
    flags = recipe_from_shell(line).recipe.flags
    assert flags == {"a": 'x "y" $5 \\', "b": "x $y | z", "c": "x y", "d": "it's"}


def test_tilde_is_home_where_a_shell_says_so(monkeypatch):
    monkeypatch.setenv("HOME", "/home/a b")
    line = "docker run -v ~/.cache:/root/.cache vllm/vllm-openai --model ~ --x a~b --y '~/z' --z=~/w"
    recipe = recipe_from_shell(line).recipe
    assert recipe.container == {"-v": "/home/a b/.cache:/root/.cache"}
    assert recipe.model == "/home/a b"
    assert recipe.flags == {"x": "a~b", "y": "~/z", "z": "~/w"}
    with pytest.raises(InputError, match="full path"):
        recipe_from_shell("docker run --entrypoint bash vllm/vllm-openai -c 'vllm serve ~/m'")


def test_short_flags_stand_plain_in_the_file():
    text = dump_case(Case(recipe=recipe_from_shell("llama-server -m x.gguf -np 4 -fa on").recipe))
    assert 'flags:\n  -np: 4\n  -fa: "on"\n' in text


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("vllm serve Q --model R", "Two models are named: Q, and R by the flag model"),
        ("vllm serve Q --max-num-seqs 8 stray", "became the value of max-num-seqs: 8 stray"),
    ],
)
def test_what_looks_like_a_slip_is_noted(command, note):
    imported = recipe_from_command(command.split())
    assert [note in told for told in imported.notes] == [True]
    assert " ".join(command_of(imported.recipe)) == command


@pytest.mark.parametrize("command", ["vllm serve Q --cuda-graph-sizes 1 2 4", "vllm serve Q --served-model-name a b"])
def test_lists_of_one_kind_are_no_slip(command):
    assert recipe_from_command(command.split()).notes == ()


def test_an_image_whose_name_tells_no_engine_is_named():
    with pytest.raises(InputError, match="The name of the image registry/engine:1") as refused:
        recipe_from_command(["docker", "run", "registry/engine:1", "--model", "Q"])
    assert "after the image" in refused.value.problems[0].remedy


def test_a_name_made_of_a_long_model_is_cut():
    assert len(recipe_from_command(["vllm", "serve", "m" * 300]).recipe.name) == 100
