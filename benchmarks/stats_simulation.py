"""What the rules of judging do over many simulated comparisons. Prints the tables of docs/statistics.md.

Run it with `python benchmarks/stats_simulation.py`; seeds are fixed, it takes under a minute.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from servesmith.stats.compare import arm_orders
from servesmith.stats.distributions import Floats, norm_quantile, t_quantile
from servesmith.stats.noninferiority import Gate, critical_value, pass_probability, tango_statistic
from servesmith.stats.plan import detectable, items_estimate, items_needed
from servesmith.stats.rules import Rules
from servesmith.stats.sample import outliers
from servesmith.stats.sequential import SAYS, judge_many

RUNS = 20_000
RULES = Rules()
SHORT = Rules(looks=(4, 6))


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(f"\n### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row) + " |")


def trials(draw: np.random.Generator, restart: float, run: float, blocks: int) -> Floats:
    """Noise of one arm's trials: one restart and one run each. Shape (RUNS, blocks)."""
    return draw.normal(0, restart, (RUNS, blocks)) + draw.normal(0, run, (RUNS, blocks))


def ratios(draw: np.random.Generator, effect: float, noise: float, blocks: int = RULES.last) -> Floats:
    """Log ratios of blocks at equal restart and run noise."""
    return math.log1p(effect) + trials(draw, noise, noise, blocks) - trials(draw, noise, noise, blocks)


def share(value: float) -> str:
    return f"{100 * value:.1f} %"


def shares(samples: Floats, rules: Rules) -> list[object]:
    codes, blocks = judge_many(samples, rules)
    return [*(share((codes == SAYS.index(says)).mean()) for says in ("better", "worse", "same", "undecided")),
            f"{blocks.mean():.1f}"]  # fmt: skip


def upper(samples: Floats) -> str:
    """95 % upper limit of the share of false claims."""
    codes, _ = judge_many(samples, RULES)
    false = np.isin(codes, [SAYS.index("better"), SAYS.index("worse")]).mean()
    return share(false + 1.645 * math.sqrt(false * (1 - false) / len(samples)))


def effects() -> None:
    for rules, name in ((RULES, "looks 4, 6, 8, 10, 12"), (SHORT, "looks 4, 6")):
        rows = []
        for noise in (0.01, 0.02):
            for effect in (-0.03, 0.0, 0.01, 0.02, 0.03, 0.05, 0.10):
                samples = ratios(np.random.default_rng(1), effect, noise)
                rows.append([share(effect), share(noise), *shares(samples, rules)])
        head = ["true effect", "restart and run noise", "better", "worse", "same", "undecided", "mean blocks"]
        table(f"Verdicts, {name} ({RUNS} comparisons a row)", head, rows)


def false_claims() -> None:
    rows = []
    for noise in (0.0025, 0.005, 0.01, 0.02, 0.05, 0.15):
        samples = ratios(np.random.default_rng(2), 0.0, noise)
        better, worse, *_ = shares(samples, RULES)
        rows.append([share(noise) if noise != 0.0025 else "0.25 %", better, worse, upper(samples)])
    table("False claims on equal arms", ["restart and run noise", "better", "worse", "both, upper 95 % limit"], rows)


def drifting(draw: np.random.Generator, drift: float, *, fixed: bool) -> Floats:
    """A drift per trial slot, and arms ordered by seed or always A first."""
    samples = ratios(draw, 0.0, 0.01)
    if fixed:
        return samples + drift
    signs = [[1 if first == "A" else -1 for first, _ in arm_orders(RULES.last, seed)] for seed in range(RUNS)]
    return samples + drift * np.array(signs)


def contaminated(draw: np.random.Generator, effect: float) -> Floats:
    """One trial in twenty of each arm loses 5 to 20 %."""
    samples = ratios(draw, effect, 0.01)
    for sign in (1, -1):
        hit = draw.random(samples.shape) < 0.05
        samples = samples + sign * hit * np.log1p(-draw.uniform(0.05, 0.20, samples.shape))
    return samples


def heavy(draw: np.random.Generator, effect: float) -> Floats:
    """Student's t with three degrees of freedom, scaled to the same standard deviation."""
    return math.log1p(effect) + 0.02 * draw.standard_t(3, (RUNS, RULES.last)) / math.sqrt(3)


def robustness() -> None:
    draw = np.random.default_rng
    cases = [
        ("normal, no effect", ratios(draw(3), 0.0, 0.01)),
        ("drift 0.4 % a slot, order by seed", drifting(draw(3), 0.004, fixed=False)),
        ("drift 0.4 % a slot, A always first", drifting(draw(3), 0.004, fixed=True)),
        ("heavy tails (t, 3 degrees), no effect", heavy(draw(3), 0.0)),
        ("heavy tails, +3 %", heavy(draw(3), 0.03)),
        ("5 % outliers of 5 to 20 %, no effect", contaminated(draw(3), 0.0)),
        ("5 % outliers, +3 %", contaminated(draw(3), 0.03)),
        ("5 % outliers, +5 %", contaminated(draw(3), 0.05)),
    ]
    head = ["case at noise 1 %", "better", "worse", "same", "undecided", "mean blocks"]
    table("When the assumptions do not hold", head, ([name, *shares(samples, RULES)] for name, samples in cases))


def coverage_at_stop(rules: Rules, effect: float, sd: float, unit: Floats) -> float:
    samples = effect + sd * unit
    _, blocks = judge_many(samples, rules)
    covered = 0
    for look in rules.looks:
        seen = samples[blocks == look, :look]
        reach = t_quantile(1 - rules.alpha, look - 1) * seen.std(axis=1, ddof=1) / math.sqrt(look)
        covered += int((np.abs(seen.mean(axis=1) - effect) <= reach).sum())
    return covered / len(samples)


def joint_coverage(rules: Rules, unit: Floats) -> float:
    inside = np.ones(len(unit), dtype=bool)
    for look in rules.looks:
        seen = unit[:, :look]
        reach = t_quantile(1 - rules.alpha, look - 1) * seen.std(axis=1, ddof=1) / math.sqrt(look)
        inside &= np.abs(seen.mean(axis=1)) <= reach
    return float(inside.mean())


def coverage() -> None:
    rows = []
    for looks in ((4, 6, 8, 10, 12), (4, 6, 8), (4, 6), (4, 8, 16, 32, 64)):
        rules = Rules(looks=looks)
        unit = np.random.default_rng(4).standard_normal((RUNS, rules.last))
        grid = [(sd * shift, sd) for sd in (0.002, 0.01, 0.02, 0.05, 0.3) for shift in np.linspace(-1.5, 3.0, 19)]
        worst = min(coverage_at_stop(rules, effect, sd, unit) for effect, sd in grid)
        name = ", ".join(map(str, looks))
        rows.append([name, share(rules.confidence), share(worst), share(joint_coverage(rules, unit))])
    head = ["looks", "claimed", "at the stopping look, worst of 95 effects and noises", "at all looks at once"]
    table("Coverage of the interval (98 % at each look)", head, rows)


def detectables() -> None:
    rows = [
        [share(sd), *(share(detectable(sd, blocks, RULES.alpha)) for blocks in (4, 6, 8, 12))]
        for sd in (0.005, 0.01, 0.02, 0.04)
    ]
    table("Smallest gain shown with 80 % power", ["sd of a block", "4 blocks", "6", "8", "12"], rows)


def outlier_alarms() -> None:
    rows = []
    for blocks in (4, 6, 8, 12):
        samples = np.random.default_rng(5).normal(0, 0.02, (4000, blocks)).tolist()
        rows.append([blocks, share(sum(bool(outliers(sample)) for sample in samples) / len(samples))])
    table("Clean normal samples in which some block is named an outlier", ["blocks", "share"], rows)


def noninferiority() -> None:
    rows = []
    cases = ((214, 0.05, 0.05), (200, 0.10, 0.03), (250, 0.06, 0.02), (500, 0.06, 0.02),
             (1319, 0.03, 0.01), (1319, 0.06, 0.01), (1319, 0.06, 0.02), (1319, 0.10, 0.02))  # fmt: skip
    for items, discordance, margin in cases:
        gate = Gate(margin=margin, alpha=0.05, chance=0.0)
        critical = critical_value(items, margin, 0.05)
        simulated = []
        for difference in (0.0, -margin):
            cells = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
            counts = np.random.default_rng(6).multinomial(items, cells, RUNS).astype(float)
            simulated.append(share((tango_statistic(counts[:, 0], counts[:, 1], items, -margin) > critical).mean()))
        sizes = [pass_probability(items, gate, float(psi), -margin) for psi in np.geomspace(margin, 1, 100)]
        equal = share(pass_probability(items, gate, discordance, 0.0))
        rows.append([items, share(discordance), share(margin), f"{critical:.3f}", equal, *simulated, share(max(sizes))])
    head = ["items", "discordance", "margin", "critical value", "equal B passes, exact", "simulated",
            "B worse by the margin passes, simulated", "largest over all discordances, exact"]  # fmt: skip
    table(f"Non-inferiority at alpha 5 % (normal quantile {norm_quantile(0.95):.3f})", head, rows)


def items() -> None:
    rows = []
    for margin, discordance in ((0.05, 0.05), (0.05, 0.10), (0.03, 0.06), (0.02, 0.06), (0.01, 0.06)):
        rough = items_estimate(margin, discordance, 0.05, 0.90)
        rows.append([share(margin), share(discordance), rough, items_needed(margin, discordance, 0.05, 0.90)])
    head = ["margin", "discordance", "normal approximation", "by exact power"]
    table("Items for 90 % power at alpha 5 %", head, rows)


def main() -> None:
    for part in (effects, false_claims, robustness, coverage, detectables, outlier_alarms, noninferiority, items):
        part()


if __name__ == "__main__":
    main()
