"""What a quality trial does with a running server: the exam at the load's concurrency, free text at one stream."""

from collections.abc import Sequence

import msgspec

from servesmith.desk import Desk, Outcome
from servesmith.load.client import ask
from servesmith.load.probe import identify
from servesmith.measure.answers import ANSWERS, GREEDY, Sheet, write_sheets
from servesmith.measure.records import Metric, RequestRecord
from servesmith.quality.gate import Ask, collect, plan_exam, strength
from servesmith.quality.greedy import greedy_answers, greedy_prompts
from servesmith.recipe.model import Quality, Risk


class QualityErrand(msgspec.Struct, frozen=True):
    """Ask the exam of this strength, and so many free questions one at a time. Equal seeds ask the same."""

    quality: Quality
    risk: Risk
    streams: int
    prompts: int

    def run(self, desk: Desk) -> Outcome:
        """Answers go to quality/<task>.jsonl and greedy.json of the trial's folder."""

        def put(bodies: Sequence[bytes], concurrency: int) -> list[RequestRecord]:
            return ask(desk.url, bodies, concurrency, key=desk.key)

        return examined(self, desk, identify(desk.url, key=desk.key).model, put)


def examined(errand: QualityErrand, desk: Desk, model: str, put: Ask) -> Outcome:
    """Ask everything through `put` and keep every answer."""
    texts = greedy_answers(greedy_prompts(desk.seed, errand.prompts), model, put)
    exam = plan_exam(errand.quality, strength(errand.risk, allowed=True), desk.seed)
    sheets = collect(exam, model, errand.streams, put)
    write_sheets(desk.folder / ANSWERS, sheets)
    (desk.folder / GREEDY).write_bytes(msgspec.json.format(msgspec.json.encode(texts), indent=1))
    return Outcome("ok", metrics=_shares(sheets))


def _shares(sheets: Sequence[Sheet]) -> dict[str, Metric]:
    """Accuracy by task, for people; the gate judges the answers themselves."""
    return {
        f"accuracy_{sheet.task}": Metric(sheet.right / max(len(sheet.answers), 1), "fraction", "higher")
        for sheet in sheets
    }
