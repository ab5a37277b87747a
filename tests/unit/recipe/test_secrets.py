"""Names that look secret, and names that only look alike."""

import pytest

from servesmith.recipe.secrets import MASK, is_secret_flag, is_secret_name, mask


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
