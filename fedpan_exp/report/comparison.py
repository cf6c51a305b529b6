"""Tables over all runs: PANs off against on in pairs, the cost of a target accuracy, and the runs themselves."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fedpan_exp.report.describe import describe, distinguishing_keys
from fedpan_exp.report.pairing import Paired, paired
from fedpan_exp.report.runs import VALUE, Run
from fedpan_exp.report.statistics import SeedStats, cost_to_target, seed_stats
from fedpan_exp.report.tables import MeanStd, Table, Value, gain, mean_std


@dataclass(frozen=True)
class Comparison:
    """One PAN against off in one setting."""

    setting: str
    pan: str
    off: SeedStats
    on: SeedStats
    difference: Paired
    facets: dict[str, str]  # for the page's filters

    def row(self) -> list[Value]:
        interval, level = self.difference.interval, self.difference.level
        text = "too few pairs"
        if interval and level:
            text = f"{100 * interval[0]:+.2f} to {100 * interval[1]:+.2f} ({100 * level:.3g}%)"
        wins = f"{self.difference.wins:.0%}"
        n = self.difference.n
        return [self.setting, self.pan, mean_std(self.off), mean_std(self.on), gain(self.difference), text, wins, n]


COLUMNS = ["setting", "PAN", "off (%)", "on (%)", "on - off (points)", "interval (level)", "win rate", "pairs"]


def compare(runs: Sequence[Run]) -> list[Comparison]:
    """One comparison per setting and PAN, then one per PAN over all settings."""
    measured = [run for run in runs if run.number(VALUE) is not None]
    names = distinguishing_keys(measured, "seed", "pan")
    settings = _group(measured, lambda run: run.key("pan", "seed"))
    comparisons: list[Comparison] = []
    pooled: dict[str, list[Comparison]] = {}
    for group in settings.values():
        off = [run for run in group if run.is_off]
        for pan, on in _group([run for run in group if not run.is_off], lambda run: run.pan).items():
            difference = paired([*off, *on])
            if difference.n:
                facets = {name: str(group[0].setting(name)) for name in ("study", "algorithm", "dataset")}
                setting = describe(group[0], names) or "all runs"
                comparison = Comparison(
                    setting, pan, seed_stats(off), seed_stats(on), difference, facets | {"pan": pan}
                )
                comparisons.append(comparison)
                pooled.setdefault(pan, []).append(comparison)
    return comparisons + [_over_all(pan, each) for pan, each in pooled.items() if len(each) > 1]


def _over_all(pan: str, each: list[Comparison]) -> Comparison:
    """Compare the means of the settings: runs of one seed are correlated across settings and are not separate pairs."""
    differences = tuple(comparison.difference.mean for comparison in each)
    return Comparison(
        f"all {len(each)} settings, one mean per setting",
        pan,
        SeedStats(),
        SeedStats(),
        Paired(differences),
        {"pan": pan},
    )


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    return Table(COLUMNS, [comparison.row() for comparison in comparisons])


def target_table(runs: Sequence[Run], target: float) -> Table:
    """Rounds, megabytes and seconds until the test accuracy reached the target, over the seeds that did."""
    tested = [run for run in runs if run.complete and "global/test_acc" in run.columns]
    names = distinguishing_keys(tested, "seed", "pan")
    rows: list[list[Value]] = []
    for group in _group(tested, lambda run: run.key("seed")).values():
        costs = [cost for run in group if (cost := cost_to_target(run, target))]
        cells = [
            [cost.rounds for cost in costs],
            [cost.bytes / 1e6 for cost in costs],
            [cost.seconds for cost in costs],
        ]
        means: list[MeanStd] = [mean_std(SeedStats(tuple(values)), 1, 1) for values in cells]
        rows.append([describe(group[0], names) or "all runs", group[0].pan, f"{len(costs)} of {len(group)}", *means])
    return Table(["setting", "PAN", f"reached {target:.0%}", "rounds", "MB sent", "seconds"], rows)


def run_table(runs: Sequence[Run]) -> Table:
    names = distinguishing_keys(runs, "seed", "pan")
    rows: list[list[Value]] = [
        [run.name, run.status, run.trouble, describe(run, names), run.pan, run.seed, *_scores(run)] for run in runs
    ]
    return Table(["run", "status", "trouble", "setting", "PAN", "seed", "last five (%)", "best (%)"], rows)


def _scores(run: Run) -> list[Value]:
    values = [run.number(VALUE), run.number("summary/best_acc")]
    return [None if value is None else round(100 * value, 4) for value in values]


def _group(runs: Iterable[Run], key: Callable[[Run], str]) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups
