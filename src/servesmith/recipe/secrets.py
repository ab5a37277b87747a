"""What must never be written to a file: values whose names look secret."""

import re
from collections.abc import Iterator, Mapping, Sequence

from servesmith.recipe.argv import is_flag
from servesmith.recipe.paths import Path
from servesmith.units import Json

MASK = "********"
LEAK = (
    "Looks like a secret, and a recipe is published.",
    "Delete it here and export it in the environment that starts servesmith: the server inherits it "
    "(llama-server reads LLAMA_API_KEY, vLLM VLLM_API_KEY; `key_env` names the key for requests).",
)
"""What is wrong with a place that `leaks` finds, and the remedy."""

_SECRET_WORD = re.compile(r"(TOKEN|KEY|KEYS|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)$")
_PLACE_WORDS = frozenset({"FILE", "PATH", "DIR", "FOLDER"})
_SECRET_FLAG = re.compile(r"(^|-)(api-?keys?|password|passwd|secret|(hf|auth|access|bearer|api)-token)$|^token$")


def is_secret_name(name: str) -> bool:
    """True if a variable of this name holds a secret: HF_TOKEN, OPENAI_API_KEY, DB_PASSWORD, AWS_SECRET_ACCESS_KEY.

    MAX_TOKENS, TOKENIZERS_PARALLELISM and names of files and folders do not.
    """
    words = re.split(r"[^A-Z0-9]+", name.upper())
    return words[-1] not in _PLACE_WORDS and any(_SECRET_WORD.search(word) for word in words)


def is_secret_flag(name: str) -> bool:
    """True if an engine flag of this name holds a secret: api-key, hf-token, ssl-keyfile-password."""
    return _SECRET_FLAG.search(name.lstrip("-").replace("_", "-").lower()) is not None


def mask(env: Mapping[str, str]) -> dict[str, str]:
    """The environment with the values of secret names masked."""
    return {name: MASK if is_secret_name(name) else value for name, value in env.items()}


def mask_words(words: Sequence[str]) -> list[str]:
    """The words of a command with the values of secret flags and of secret `NAME=value` words masked."""
    masked: list[str] = []
    after_secret = False
    for word in words:
        if is_flag(word):
            name, equals, value = word.partition("=")
            after_secret = not equals and is_secret_flag(name)
            shown = MASK if is_secret_flag(name) else _mask_word(value)
            masked.append(f"{name}{equals}{shown if equals else ''}")
        else:
            masked.append(MASK if after_secret else _mask_word(word))
    return masked


def _mask_word(word: str) -> str:
    """`HF_TOKEN=x`, `flags.api-key=x`, and a whole command line in one word."""
    if " " in word:
        return " ".join(mask_words(word.split(" ")))
    name, equals, value = word.partition("=")
    last = name.rpartition(".")[2]
    return f"{name}={MASK}" if equals and value and (is_secret_name(last) or is_secret_flag(last)) else word


def leaks(recipe: Mapping[str, Json]) -> Iterator[Path]:
    """Places in a recipe's data that hold a secret: variables, flags, and words for a container or the executable."""
    env, flags, container = (recipe.get(section) for section in ("env", "flags", "container"))
    for name, value in env.items() if isinstance(env, dict) else ():
        if value not in (None, "") and is_secret_name(name):
            yield "env", name
    for name, value in flags.items() if isinstance(flags, dict) else ():
        if value not in (None, True, False) and is_secret_flag(name):
            yield "flags", name
    for name, value in container.items() if isinstance(container, dict) else ():
        if _tells(value):
            yield "container", name
    if _tells(recipe.get("executable")):
        yield ("executable",)


def _tells(value: Json) -> bool:
    words = [str(item) for item in value if not isinstance(item, list)] if isinstance(value, list) else [str(value)]
    below = [item for item in value if isinstance(item, list)] if isinstance(value, list) else []
    return mask_words(words) != words or any(_tells(item) for item in below)
