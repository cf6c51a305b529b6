"""The figures of a paper and what it claims of them, compared with our results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from math import inf, isnan, nan
from typing import Any

from fedpan_exp.report.figure import FigureResult
from fedpan_exp.report.frame import column, show
from fedpan_exp.report.statistics import MeanStd
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.system.errors import listed, require_choice

SPLIT = ("fl_scene.K", "fl_scene.alpha")  # without meaning where clients are users, as with FeMnist
# In every figure of the paper:
FULL_SIZE: dict[str, list[Any]] = {"model.width_factor": [1.0], "dataset.samples": ["all"]}


@dataclass(frozen=True)
class Claim:
    claim: str
    expected: float | list[float] | str  # a number, a range, or the paper's wording
    finding: str  # the key of the result that answers it
    holds: str = ""  # above 0 | below 0, for a wording that is a sign
    margin: float = 0.5  # by which our result may differ from the paper's number, in its unit

    def __post_init__(self) -> None:
        require_choice("holds", self.holds, ("", "above 0", "below 0"))

    @property
    def range(self) -> tuple[float, float]:
        """The results that support the claim; not a number for a wording that is no sign."""
        if self.holds:
            return (0.0, inf) if self.holds == "above 0" else (-inf, 0.0)
        if isinstance(self.expected, str):
            return nan, nan
        ends = self.expected if isinstance(self.expected, list) else [self.expected]
        return ends[0] - self.margin, ends[-1] + self.margin

    def row(self, ours: MeanStd | str | None) -> tuple[str, str, str, str]:
        """A table row: claim, paper, ours, difference."""
        expected: list[Any] = self.expected if isinstance(self.expected, list) else [self.expected]
        difference = ""
        if isinstance(ours, MeanStd) and not isnan(ours.mean) and not isinstance(self.expected, str):
            excess = min(ours.mean - expected[0], 0) + max(ours.mean - expected[-1], 0)
            difference = "within" if len(expected) > 1 and not excess else f"{excess:+.2f}"
        return self.claim, " to ".join(map(show, expected)), str(ours or "not measured"), difference


@dataclass(frozen=True)
class PaperFigure:
    """A figure or table of the paper, or one of its grids; drawn from the sweep of the same name."""

    name: str
    title: str
    statement: str  # of the paper
    function: Callable[..., FigureResult]  # takes a table of runs; also `all_runs` or `expected`, if it names them
    arguments: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # the paper's values by setting
    claims: Sequence[Claim] = ()

    @property
    def command(self) -> str:
        return f"python -m fedpan_exp sweeps={self.name}"

    @property
    def uses_all_runs(self) -> bool:
        return "all_runs" in signature(self.function).parameters

    def draw(self, sweep: Sweep) -> FigureResult:
        available = {
            "all_runs": sweep.all_runs,  # in the folders, for figures that use more than their sweep
            "expected": {claim.finding: claim.expected for claim in self.claims},
        }
        named = {name: value for name, value in available.items() if name in signature(self.function).parameters}
        return self.function(sweep.runs, **self.arguments, **named)

    def differences_from_paper(self, sweep: Sweep) -> list[str]:
        """Settings in which the runs differ from the paper's."""
        differences = [] if sweep.scale == "paper" else [f"scale={sweep.scale}"]
        for name, expected in {**FULL_SIZE, **self.settings}.items():
            has_clients = column(sweep.runs, "fl_scene.partition") != "natural"
            values = column(sweep.runs[has_clients] if name in SPLIT else sweep.runs, name)
            used, wanted = list(dict.fromkeys(map(show, values.dropna()))), list(map(show, expected))
            missing = [value for value in wanted if value not in used]
            unexpected = [value for value in used if value not in wanted]
            short = name.removeprefix("fl_scene.")
            if unexpected:
                differences.append(f"{short}={listed(unexpected)} where the paper has {listed(wanted)}")
            elif missing and used:
                differences.append(f"without {short}={listed(missing)}")
        return differences
