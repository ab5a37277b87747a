"""How often the knee is claimed wrongly, how wide the answer is and what it costs. Figures of docs/knee.md.

python benchmarks/knee_simulation.py [RUNS]
"""

import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable

from servesmith.stats.knee import Knee, KneeRules, Probe, Seen, decide

RULES = KneeRules()
SHAPES: dict[str, tuple[Callable[[int], float], int]] = {
    "cliff: +150 % from 17 on": (lambda n: -0.5 if n <= 16 else 1.0, 16),
    "4 % a stream, edge 20/21": (lambda n: 0.04 * (n - 20.5), 20),
    "1 % a stream, edge 20/21": (lambda n: 0.01 * (n - 20.5), 20),
    "0.3 % a stream, edge 100/101": (lambda n: 0.003 * (n - 100.5), 100),
    "every level a hair over": (lambda _: 1e-9, 0),
    "every level exactly at it": (lambda _: -1e-9, 256),
}


def play(margin: Callable[[int], float], sd: float, draw: random.Random) -> tuple[Knee, int]:
    """One knee run with normal noise of single starts."""
    seen: list[Seen] = []
    while isinstance(step := decide(seen, RULES), Probe):
        seen.append(Seen(level=step.level, stage=step.stage, margins={"x": margin(step.level) + draw.gauss(0, sd)}))
    return step, len(seen)


def main() -> int:
    """Print one line a shape and noise."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print("| shape | noise | kept claimed falsely | break claimed falsely | says | median answer | starts |")
    print("| --- | ---: | ---: | ---: | --- | --- | ---: |")
    for name, (margin, edge) in SHAPES.items():
        for sd in (0.01, 0.03, 0.10):
            draw = random.Random(f"{name}/{sd}")
            played = [play(margin, sd, draw) for _ in range(runs)]
            knees = [knee for knee, _ in played]
            high = sum(knee.at_least > edge for knee in knees) / runs
            low = sum(0 < knee.breaks_at <= edge for knee in knees) / runs
            says = ", ".join(f"{k} {100 * n / runs:.0f} %" for k, n in Counter(k.says for k in knees).most_common(3))
            middle = [statistics.median(getattr(k, f) for k in knees) for f in ("at_least", "breaks_at")]
            cost = statistics.mean(starts for _, starts in played)
            print(
                f"| {name} | {100 * sd:.0f} % | {100 * high:.1f} % | {100 * low:.1f} % | {says} "
                f"| {middle[0]:.0f} to {middle[1]:.0f} | {cost:.0f} |"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
