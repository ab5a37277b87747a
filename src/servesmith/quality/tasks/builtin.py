"""The built-in tasks: short, generated, and of a kind that even a model of 135 million parameters can do, or cannot.

Every task shows what it wants by earlier turns of the conversation: small models follow those and ignore instructions.
All items of a task share these turns, so a server with prefix caching computes them once. What SmolLM2-135M-Instruct
does with each task is in docs/quality.md.
"""

import random
from collections.abc import Sequence

from servesmith.errors import InputError, Problem
from servesmith.quality.tasks.base import Generated, Task


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_WORDS = _words(
    "apple river stone cloud tiger piano green window bread horse table orange silver garden monkey candle forest "
    "pencil rocket yellow dragon winter bottle mirror island coffee hammer pillow basket doctor"
)
_NAMES = _words(
    "Anna Ben Clara David Emma Frank Grace Henry Iris Jack Kate Leo Mary Nick Olga Paul Rosa Sam Tina Victor"
)
_CITIES = _words("Paris London Rome Berlin Madrid Tokyo Cairo Oslo")
_JOBS = _words("teacher doctor baker farmer singer lawyer")
_COLOURS = _words("red blue green black white yellow pink brown")
_THINGS = _words("car hat bag bike cup coat door book")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _copy(text: str) -> tuple[str, str]:
    return f"Copy: {text}", text


def _add(first: int, second: int) -> tuple[str, str]:
    return f"What is {first} + {second}?", f"{first} + {second} = {first + second}"


def _recall(name: str, age: int, job: str, city: str, asked: int) -> tuple[str, str]:
    question, answer = (
        (f"Where does {name} live?", f"{name} lives in {city}."),
        (f"What does {name} work as?", f"{name} works as a {job}."),
        (f"How old is {name}?", f"{name} is {age} years old."),
    )[asked]
    return f"{name} is {age} years old, works as a {job} and lives in {city}. {question}", answer


def _sort(numbers: Sequence[int]) -> tuple[str, str]:
    return f"Sort: {' '.join(map(str, numbers))}", " ".join(map(str, sorted(numbers)))


def _yesno(name: str, colour: str, thing: str, asked: str) -> tuple[str, str]:
    return f"{name} has a {colour} {thing}. Is the {thing} {asked}?", "yes" if asked == colour else "no"


def _draw_marked(rng: random.Random) -> tuple[str, str]:
    text = " ".join(rng.sample(_WORDS, 4))
    return f"Repeat what stands here. ANSWER={text}", text


def _draw_words(rng: random.Random) -> tuple[str, str]:
    return _copy(" ".join(rng.sample(_WORDS, 5)))


def _draw_letters(rng: random.Random) -> tuple[str, str]:
    return _copy("".join(rng.choices(_LETTERS, k=7)))


def _draw_add(rng: random.Random) -> tuple[str, str]:
    return _add(rng.randint(1, 40), rng.randint(1, 9))


def _draw_recall(rng: random.Random) -> tuple[str, str]:
    return _recall(
        rng.choice(_NAMES), rng.randint(20, 70), rng.choice(_JOBS), rng.choice(_CITIES), asked=rng.randrange(3)
    )


def _draw_sort(rng: random.Random) -> tuple[str, str]:
    return _sort(rng.sample(range(1, 50), 3))


def _draw_yesno(rng: random.Random) -> tuple[str, str]:
    colour, other = rng.sample(_COLOURS, 2)
    return _yesno(rng.choice(_NAMES), colour, rng.choice(_THINGS), rng.choice((colour, other)))


TASKS: tuple[Task, ...] = (
    Generated(
        name="copy",
        chance=0.0,
        draw=_draw_words,
        max_tokens=24,
        examples=(_copy("sun lamp cat door leg"), _copy("milk road six wall pen"), _copy("king ship moon tree car")),
    ),
    Generated(
        name="letters",
        chance=0.0,
        draw=_draw_letters,
        max_tokens=16,
        examples=(_copy("kqzvume"), _copy("htrwabs"), _copy("pzydoei")),
    ),
    Generated(
        name="arithmetic",
        chance=1 / 48,
        draw=_draw_add,
        max_tokens=16,
        examples=(_add(12, 3), _add(26, 1), _add(38, 4), _add(25, 9)),
    ),
    Generated(
        name="recall",
        chance=1 / 3,
        draw=_draw_recall,
        max_tokens=16,
        examples=(
            _recall("Tom", 31, "pilot", "Boston", asked=0),
            _recall("Lucy", 42, "nurse", "Dublin", asked=1),
            _recall("Mark", 57, "cook", "Prague", asked=2),
        ),
    ),
    Generated(
        name="sort",
        chance=1 / 6,
        draw=_draw_sort,
        max_tokens=16,
        examples=tuple(_sort(numbers) for numbers in ((31, 7, 12), (4, 26, 18), (45, 9, 33), (2, 14, 8), (27, 40, 11))),
    ),
    Generated(
        name="yesno",
        chance=1 / 2,
        draw=_draw_yesno,
        max_tokens=4,
        examples=(
            _yesno("Tom", "gray", "dog", "gray"),
            _yesno("Lucy", "gold", "ring", "purple"),
            _yesno("Mark", "tan", "chair", "gold"),
            _yesno("Jane", "gold", "lamp", "gold"),
        ),
    ),
    Generated(name="marked", chance=0.0, draw=_draw_marked, max_tokens=16),
)
"""Every built-in task. `marked` is what the sim engine can do: the answer stands in the prompt. `sort` and `yesno` are
for models that can do them: SmolLM2-135M cannot."""

DEFAULT = ("copy", "letters", "arithmetic", "recall")
"""The tasks of a gate that names none."""


def choose_tasks(names: Sequence[str] = ()) -> tuple[Task, ...]:
    """The built-in tasks of these names, or the default set. Raises InputError on unknown and repeated names."""
    known = {task.name: task for task in TASKS}
    wanted = names or DEFAULT
    problems = [
        Problem(f"There is no task {name!r}.", f"Known: {', '.join(known)}.", field="quality.tasks")
        for name in wanted
        if name not in known
    ]
    if len(set(wanted)) < len(wanted):
        problems.append(Problem("A task is named twice.", "Name each once.", field="quality.tasks"))
    if problems:
        raise InputError(*problems)
    return tuple(known[name] for name in wanted)
