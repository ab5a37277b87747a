"""Tokenizers of several kinds, none of them the simple one."""

TEMPLATE = 21
AROUND = 5
"""Tokens that the template puts around each further message."""


class WordTokenizer:
    """One token a word, but words that end in `long_ending` take two; a chat prompt has 21 tokens around it."""

    def __init__(self, long_ending: str = "", bos: int = 1) -> None:
        self.long_ending = long_ending
        self.bos = bos
        self.calls = 0

    def count_chat(self, text: str) -> int:
        return self.count_messages([{"role": "user", "content": text}])

    def count_messages(self, messages) -> int:
        self.calls += 1
        own = sum(self._length(message["content"]) for message in messages)
        return TEMPLATE + AROUND * (len(messages) - 1) + own

    def count_text(self, text: str) -> int:
        self.calls += 1
        return self.bos + self._length(text)

    def tokenize(self, text: str) -> list[int]:
        return [100 + sum(map(ord, word)) * 7 % 1009 for word in text.split()]

    def _length(self, text: str) -> int:
        return sum(2 if self.long_ending and word.endswith(self.long_ending) else 1 for word in text.split())


class StartTokenizer(WordTokenizer):
    """A word at the very start has no space before it, and some words take more tokens then."""

    def _length(self, text: str) -> int:
        return super()._length(text) + (text[:1] in "abcdefg")


class GluedTokenizer(WordTokenizer):
    """Two short words in a row make one token, so that lengths do not add up."""

    def _length(self, text: str) -> int:
        words = text.split()
        glued = sum(len(a) <= 4 and len(b) <= 4 for a, b in zip(words[::2], words[1::2], strict=False))
        return len(words) - glued
