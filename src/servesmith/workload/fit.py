"""Texts of an exact number of tokens, and counting them without asking the server for each."""

import random
from collections.abc import Callable, Sequence

from servesmith.errors import InputError, Problem
from servesmith.workload.words import WORDS

Count = Callable[[str], int]
"""Tokens of a text as the server counts it, with what it puts around."""
_TRIES = 60


def fit(head: Sequence[str], target: int, frame: int, count: Count, rng: random.Random) -> list[str]:
    """`head` with random words behind it, exactly `target` tokens. Raises InputError if none is found.

    A common word is one token in nearly every vocabulary, so the first try mostly fits; else words are added
    or taken away by what a word was seen to take, and the last one is drawn anew where it stands in the way.
    """
    words = [*head, *rng.choices(WORDS, k=max(0, target - frame - len(head)))]
    for _ in range(_TRIES):
        tokens = count(" ".join(words))
        if tokens == target:
            return words
        if tokens > target and len(words) == len(head):
            raise _unmet(target, f"Set it to {tokens} or more.")
        a_word = max(1.0, (tokens - frame) / max(1, len(words)))
        step = max(1, round(abs(target - tokens) / a_word))
        if tokens < target:
            words = [*words, *rng.choices(WORDS, k=step)]
        else:
            words = [*words[: max(len(head), len(words) - step - 1)], rng.choice(WORDS)]
    raise _unmet(target, "Set it a little higher or lower.")


def _unmet(target: int, remedy: str) -> InputError:
    message = f"No prompt of exactly {target} tokens was found with the server's tokenizer."
    return InputError(Problem(message, remedy, field="workload.prompt_tokens"))


def frame_of(count: Count, one: str, other: str) -> int:
    """Tokens that stand around a text, from the counts of two words and of both together."""
    return count(one) + count(other) - count(f"{one} {other}")


class SumOfWords:
    """Counts a text of known words as the sum of its words: exact where a tokenizer never looks across a space.

    That holds for vocabularies whose pre-tokenizer splits before each space, which all of the common ones do; whoever
    uses it must check a sample all the same. A first word has no space before it, so each is asked for by itself, once.
    """

    def __init__(self, count: Count) -> None:
        """Learn what the words take: a few calls, since most of them take one token and are asked for together."""
        self._count = count
        self._first: dict[str, int] = {}
        self._costs: dict[str, int] = {}
        self._learn(WORDS, self._alone(WORDS[0]))

    def __call__(self, text: str) -> int:
        """Tokens of the text, with what the server puts around it."""
        first, *others = text.split(" ")
        return self._alone(first) + sum(map(self._costs.__getitem__, others))

    def _alone(self, word: str) -> int:
        if word not in self._first:
            self._first[word] = self._count(word)
        return self._first[word]

    def _learn(self, words: Sequence[str], anchor: int) -> None:
        """No word takes less than one token, so words that take as many tokens as they are take one each."""
        tokens = self._count(" ".join([WORDS[0], *words])) - anchor
        if tokens == len(words) or len(words) == 1:
            self._costs.update(dict.fromkeys(words, 1) if tokens == len(words) else {words[0]: tokens})
            return
        half = len(words) // 2
        self._learn(words[:half], anchor)
        self._learn(words[half:], anchor)
