"""make bench-against OTHER=../before: is this checkout slower than another one?

Rounds of the two take turns, so that a disturbance mostly affects both of a pair; the median of the pairs' ratios
counts. ARGS="moon VGG9" selects jobs by a part of their names. The other checkout needs an environment if its
packages differ.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.jobs import ONE_RANK, OVER_RANKS, THE_PAPERS, jobs_of
from fedpan_exp.system.console import console

HERE = Path(__file__).parents[1]
REPEATS = 3  # times the rounds of a job
JOBS = [(1, name, *job) for name, job in (ONE_RANK | jobs_of(THE_PAPERS)).items()]
JOBS += [(2, name, *job) for name, job in OVER_RANKS.items()]


class RoundServer:
    """A process that runs rounds of one checkout on request."""

    def __init__(self, checkout: Path, ranks: int, overrides: tuple[str, ...]):
        own_python = checkout / ".venv" / "bin" / "python"
        python = own_python if own_python.exists() else sys.executable
        self._process = subprocess.Popen(
            [python, HERE / "benchmarks" / "serve_rounds.py", str(ranks), *overrides],
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._answer() != "ready":
            sys.exit(f"benchmarks.against: {checkout} cannot run these rounds")
        self.seconds()  # the first round warms up

    def seconds(self) -> float:
        assert self._process.stdin
        print(file=self._process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()


def compare(other: Path, ranks: int, overrides: tuple[str, ...], pairs: int) -> tuple[list[float], list[float]]:
    """Seconds per round of this checkout and of the other one, in pairs; every other pair begins with the other."""
    servers = [RoundServer(checkout, ranks, overrides) for checkout in (HERE, other)]
    seconds: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 else (1, 0):
            seconds[which].append(servers[which].seconds())
    for server in servers:
        server.close()
    return seconds


def main(other: Path, *parts: str) -> None:
    console.print(f"  {'seconds per round with evaluation, here / there':<64}{'here':>8}{'ratio':>8}   quartiles")
    for ranks, name, overrides, rounds in JOBS:
        if not parts or any(part in name for part in parts):
            here, there = compare(other, ranks, overrides, REPEATS * rounds)
            ratios = [ours / theirs for ours, theirs in zip(here, there, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            title = f"{name}, {ranks} rank{'s' if ranks > 1 else ''}"
            console.print(f"  {title:<64}{min(here):6.3f} s{middle:8.3f}   {low:.3f} to {high:.3f}")


main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
