"""Rounds of two settings, or of two checkouts, in turns: a disturbance mostly affects both of a pair."""

import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parents[1]


class RoundServer:
    """A process that runs rounds of one checkout on request."""

    def __init__(self, overrides: tuple[str, ...], ranks: int = 1, with_test: bool = True, checkout: Path = HERE):
        own_python = checkout / ".venv" / "bin" / "python"
        python = own_python if own_python.exists() else sys.executable
        test = "test" if with_test else "no-test"
        self._process = subprocess.Popen(
            [python, HERE / "benchmarks" / "serve_rounds.py", str(ranks), test, *overrides],
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._answer() != "ready":
            sys.exit(f"benchmarks: {checkout} cannot run rounds of {' '.join(overrides)}")
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


@dataclass
class Comparison:
    """Seconds per round of a first and of a second server; their rounds took turns."""

    first: list[float]
    second: list[float]

    def quartiles(self) -> list[float]:
        """Of the pairs' ratios, first to second; the middle one is the median."""
        return statistics.quantiles([a / b for a, b in zip(self.first, self.second, strict=True)], n=4)


def compare(first: RoundServer, second: RoundServer, pairs: int) -> Comparison:
    """Every other pair begins with the second server."""
    comparison = Comparison([], [])
    for pair in range(pairs):
        both = [(first, comparison.first), (second, comparison.second)]
        for server, seconds in both if pair % 2 else reversed(both):
            seconds.append(server.seconds())
    return comparison
