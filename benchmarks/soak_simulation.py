"""How often the bounds of a soak's trend miss, and what is said of known changes. Figures of docs/knee.md.

python benchmarks/soak_simulation.py [RUNS]
"""

import math
import random
import sys
from collections import Counter

from servesmith.stats.soak import BINS, SoakRules, count_errors, judge_soak, trend

RULES = SoakRules()
CLEAN = count_errors([True] * 1000, (0,) * 10, RULES)


def series(change: float, sd: float, alike: float, draw: random.Random) -> list[float]:
    """A line through 100 that changes by `change` from end to end, with AR(1) noise."""
    noise, out = draw.gauss(0, sd), []
    for place in range(BINS):
        noise = alike * noise + math.sqrt(1 - alike * alike) * draw.gauss(0, sd)
        out.append(100 * (1 + change * ((place + 0.5) / BINS - 0.5) + noise))
    return out


def main() -> int:
    """Print one line a noise."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print("| noise of a bin | neighbours alike | bound missed | no change | 5 % lost | 10 % lost |")
    print("| ---: | ---: | ---: | --- | --- | --- |")
    for sd in (0.01, 0.05):
        for alike in (0.0, 0.3, 0.6, 0.8):
            draw = random.Random(f"{sd}/{alike}")
            found = [trend(series(-0.05, sd, alike, draw), RULES.confidence) for _ in range(runs)]
            missed = max(
                sum(one is not None and one.high < -0.05 for one in found),
                sum(one is not None and one.low > -0.05 for one in found),
            )
            cells: list[str] = []
            for change in (0.0, -0.05, -0.10):
                told = Counter(judge_soak(series(change, sd, alike, draw), [], CLEAN, RULES).says for _ in range(runs))
                cells.append(", ".join(f"{says} {100 * n / runs:.0f} %" for says, n in told.most_common()))
            print(f"| {100 * sd:.0f} % | {alike:.1f} | {100 * missed / runs:.1f} % | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
