"""A fake server for the gate: it knows the right answers and gives them with a set accuracy."""

import random
from collections.abc import Sequence

import msgspec

from servesmith.measure.records import RequestRecord
from servesmith.quality.gate import Ask, Exam


def record(index: int, text: str, **fields) -> RequestRecord:
    return RequestRecord(index=index, stream=0, due_ns=0, sent_ns=0, end_ns=1, text=text, **fields)


def oracle(exam: Exam, accuracy: float, *, seed: int = 0, harm: float = 0.0) -> Ask:
    """Answer right where a server of this accuracy would, less a share `harm` of all items, drawn by the seed.

    Which items it can do hangs on the item alone, so two oracles of one accuracy agree: A and an unharmed B.
    """
    right = {item.prompt: item.expected for part in exam.questions for item in part.items}

    def ask(bodies: Sequence[bytes], concurrency: int) -> list[RequestRecord]:
        rng = random.Random(seed)
        records: list[RequestRecord] = []
        for index, body in enumerate(bodies):
            prompt = msgspec.json.decode(body)["messages"][-1]["content"]
            can = random.Random(prompt).random() < accuracy
            harmed = rng.random() < harm / accuracy
            records.append(record(index, right[prompt] if can and not harmed else "no idea", finish="stop"))
        return records

    return ask


def guesser(choices: Sequence[str], seed: int) -> Ask:
    """Answer by the toss of a coin."""

    def ask(bodies: Sequence[bytes], concurrency: int) -> list[RequestRecord]:
        rng = random.Random(seed)
        return [record(index, rng.choice(choices)) for index, _ in enumerate(bodies)]

    return ask
