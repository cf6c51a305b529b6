"""make bench-against OTHER=../before: is this checkout slower than another one?

Rounds of the two take turns; the median of the pairs' ratios counts. ARGS="moon VGG9" selects jobs by a part of their
names. The other checkout needs an environment if its packages differ.
"""

import sys
from pathlib import Path

from benchmarks.jobs import ONE_RANK, OVER_RANKS, THE_PAPERS, jobs_of
from benchmarks.turns import RoundServer, compare
from fedpan_exp.system.console import console

REPEATS = 3  # times the rounds of a job
JOBS = [(1, name, *job) for name, job in (ONE_RANK | jobs_of(THE_PAPERS)).items()]
JOBS += [(2, name, *job) for name, job in OVER_RANKS.items()]


def main(other: Path, *parts: str) -> None:
    title = "seconds per round with evaluation, here / there"
    console.print(f"  {title:<64}{'here':>8}{'best':>8}{'median':>8}   quartiles")
    for ranks, name, overrides, rounds in JOBS:
        if not parts or any(part in name for part in parts):
            here, there = RoundServer(overrides, ranks), RoundServer(overrides, ranks, checkout=other)
            timed = compare(here, there, REPEATS * rounds)
            here.close()
            there.close()
            low, middle, high = timed.quartiles()
            title, best = f"{name}, {ranks} rank{'s' if ranks > 1 else ''}", min(timed.first) / min(timed.second)
            console.print(f"  {title:<64}{min(timed.first):6.3f} s{best:8.3f}{middle:8.3f}   {low:.3f} to {high:.3f}")


main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
