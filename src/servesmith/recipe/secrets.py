"""What must never be written to a file: values whose names look secret."""

import re
from collections.abc import Mapping

MASK = "********"

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
