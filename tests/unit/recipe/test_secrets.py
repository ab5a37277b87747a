"""Names that look secret, and names that only look alike."""

import sys
from pathlib import Path

import pytest

from servesmith.cli import app, show
from servesmith.errors import InputError
from servesmith.recipe.command import shell_line
from servesmith.recipe.files import read_case
from servesmith.recipe.levers import apply, read_levers
from servesmith.recipe.model import Lever, Recipe
from servesmith.recipe.secrets import MASK, is_secret_flag, is_secret_name, leaks, mask, mask_words


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "hf_token",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "APIKEY",
        "MYTOKEN",
        "X_SECRET",
        "VLLM_API_KEY",
        "WANDB-API-KEY",
        "CREDENTIALS",
        "KEY",
        "SECRET_NAME",
    ],
)
def test_secret(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "MAX_TOKENS",
        "TOKENIZERS_PARALLELISM",
        "PATH",
        "CUDA_VISIBLE_DEVICES",
        "HF_TOKEN_PATH",
        "SSL_KEY_FILE",
        "",
        "KEYBOARD",
        "VLLM_TOKENIZER",
        "NCCL_DEBUG",
    ],
)
def test_not_secret(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize("name", ["api-key", "hf-token", "api_key", "ssl-keyfile-password", "admin-api-key", "-token"])
def test_secret_flag(name):
    assert is_secret_flag(name)


@pytest.mark.parametrize(
    "name", ["max-num-batched-tokens", "tokenizer", "ssl-keyfile", "api-key-file", "stop-token", "k"]
)
def test_no_secret_flag(name):
    assert not is_secret_flag(name)


def test_mask():
    assert mask({"HF_TOKEN": "hf_abc", "A": "1"}) == {"HF_TOKEN": MASK, "A": "1"}


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["x", "--api-key", "sk-1", "sk-2", "-np", "8"], ["x", "--api-key", MASK, MASK, "-np", "8"]),
        (["--api-key=sk-1", "--port", "1"], [f"--api-key={MASK}", "--port", "1"]),
        (["-e", "HF_TOKEN=x", "--env=HF_TOKEN=x"], ["-e", f"HF_TOKEN={MASK}", f"--env=HF_TOKEN={MASK}"]),
        (
            ["--set", "flags.api-key=x", "--set=env.HF_TOKEN=x"],
            ["--set", f"flags.api-key={MASK}", f"--set=env.HF_TOKEN={MASK}"],
        ),
        (["vllm serve m --api-key sk-1 --x"], [f"vllm serve m --api-key {MASK} --x"]),
        (["--max-num-batched-tokens=8", '{"a": "b c"}', "a=b"], ["--max-num-batched-tokens=8", '{"a": "b c"}', "a=b"]),
    ],
)
def test_words_of_a_command(words, shown):
    assert mask_words(words) == shown


def test_shell_line_shows_no_secret_flag():
    assert "sk-1" not in shell_line(["llama-server", "--api-key", "sk-1"], {})


def test_a_bug_report_shows_no_secret(monkeypatch):
    reports: list[Path] = []
    monkeypatch.setattr(sys, "argv", ["servesmith", "bench", "r.yaml", "--set", "flags.api-key=sk-1"])
    monkeypatch.setattr(show, "bug", reports.append)
    monkeypatch.setattr(app, "app", lambda **_: 1 / 0)
    assert app._run() == app.BUG
    text = reports[0].read_text()
    reports[0].unlink()
    assert "ZeroDivisionError" in text
    assert "sk-1" not in text


BASE = "name: a\nengine: llamacpp\nmodel: m\n"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("env: {HF_TOKEN: hf_1}", "env.HF_TOKEN"),
        ("flags: {api-key: sk-1}", "flags.api-key"),
        ("flags: {api_key: [sk-1, sk-2]}", "flags.api_key"),
        ("container: {-e: HF_TOKEN=hf_1}", "container.-e"),
        ("container: {env: [[HF_TOKEN=hf_1], [A=1]]}", "container.env"),
        ("executable: [llama-server, --api-key, sk-1]", "executable"),
    ],
)
def test_a_recipe_with_a_secret_is_refused(tmp_path, text, field):
    path = tmp_path / "r.yaml"
    path.write_text(BASE + text)
    with pytest.raises(InputError) as caught:
        read_case(path)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.field) == (str(path), 4, field)
    assert "export" in problem.remedy
    assert "sk-1" not in str(caught.value)
    assert "hf_1" not in str(caught.value)


def test_a_secret_setting_is_refused_and_not_repeated(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(BASE)
    with pytest.raises(InputError, match="secret") as caught:
        read_case(path, ["flags.api-key=sk-1"])
    assert "sk-1" not in str(caught.value)


def test_what_holds_no_secret_value_is_no_leak():
    flags = {"api-key-file": "f", "token": True, "max-tokens": 1}
    assert not list(leaks({"env": {"HF_TOKEN": "", "A": "1"}, "flags": flags, "container": {"-e": "HF_TOKEN"}}))


@pytest.mark.parametrize("change", ["env.HF_TOKEN: hf_1", "flags.api-key: sk-1"])
def test_a_lever_with_a_secret_is_refused(tmp_path, change):
    path = tmp_path / "l.yaml"
    path.write_text(f"levers:\n- {{name: l, why: w, risk: lossless, set: {{{change}}}}}\n")
    with pytest.raises(InputError, match="secret"):
        read_levers(path)
    name, value = change.split(": ")
    made = Lever.model_validate({"name": "l", "why": "w", "risk": "lossless", "set": {name: value}})
    with pytest.raises(InputError, match="secret"):
        apply(Recipe(name="a", engine="llamacpp", model="m"), made)
