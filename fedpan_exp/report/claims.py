"""The paper's claims compared with our results, and where a sweep differs from the paper's setting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedpan_exp.report.figure_result import FigureResult
from fedpan_exp.report.frame import column, show
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd
from fedpan_exp.system.errors import listed

SPLIT = ("fl_scene.K", "fl_scene.alpha")  # without meaning where clients are users: FeMnist, in the paper as here


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and the key of the finding that answers it."""

    quantity: str
    paper: float | tuple[float, float] | str  # a number, a range, or text
    key: str

    def row(self, ours: MeanStd | str | None) -> tuple[str, str, str, str]:
        """A table row: quantity, paper, ours, difference."""
        if isinstance(self.paper, tuple):
            paper = f"{self.paper[0]:g} to {self.paper[1]:g}"
        else:
            paper = self.paper if isinstance(self.paper, str) else f"{self.paper:g}"
        return self.quantity, paper, "not measured" if ours is None else str(ours), self._difference(ours)

    def _difference(self, ours: MeanStd | str | None) -> str:
        if not isinstance(ours, MeanStd) or ours.mean is None or isinstance(self.paper, str):
            return ""
        if isinstance(self.paper, tuple):
            low, high = self.paper
            excess = min(ours.mean - low, 0) + max(ours.mean - high, 0)
            return f"{excess:+.2f}" if excess else "within"
        return f"{ours.mean - self.paper:+.2f}"


@dataclass(frozen=True)
class PaperFigure:
    """A figure or table of the paper, or one of its grids; drawn from the sweep of the same name."""

    name: str
    title: str
    statement: str  # of the paper
    draw: Callable[[Sweep], FigureResult]
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # the paper's values by setting
    claims: Sequence[Claim] = ()
    uses_all_runs: bool = False  # drawn from all runs, not only from those of its sweep
    order: int = 100  # position in the paper; figures of equal order stay in the order of their study

    @property
    def command(self) -> str:
        return f"python -m fedpan_exp sweeps={self.name}"

    def differences_from_paper(self, sweep: Sweep) -> list[str]:
        """Settings in which the runs differ from the paper's."""
        differences = [] if sweep.scale == "paper" else [f"scale={sweep.scale}"]
        for name, expected in self.settings.items():
            expected_values = [show(value) for value in expected]
            has_clients = column(sweep.runs, "fl_scene.partition") != "natural"
            values = column(sweep.runs[has_clients] if name in SPLIT else sweep.runs, name)
            used = list(dict.fromkeys(map(show, values.dropna())))
            unexpected = [value for value in used if value not in expected_values]
            missing = [value for value in expected_values if value not in used]
            short = name.removeprefix("fl_scene.")
            if unexpected:
                differences.append(f"{short}={listed(unexpected)} where the paper has {listed(expected_values)}")
            elif missing and used:
                differences.append(f"without {short}={listed(missing)}")
        return differences
