"""The paper's words and numbers beside ours, and how far a sweep is from the paper's setting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedpan_exp.report.plots.figure_result import FigureResult
from fedpan_exp.report.runs import show
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import MeanStd
from fedpan_exp.system.errors import listed

SPLIT = ("fl_scene.K", "fl_scene.alpha")  # say nothing where clients are users: FeMnist, in the paper as here


@dataclass(frozen=True)
class Claim:
    """Something the paper says, and the key under which a drawing answers it."""

    what: str
    paper: float | tuple[float, float] | str  # a number, a range, or words
    key: str

    def beside(self, ours: MeanStd | str | None) -> tuple[str, str, str, str]:
        """What, the paper's, ours, the difference."""
        if isinstance(self.paper, tuple):
            paper = f"{self.paper[0]:g} to {self.paper[1]:g}"
        else:
            paper = self.paper if isinstance(self.paper, str) else f"{self.paper:g}"
        return self.what, paper, "not measured" if ours is None else str(ours), self._difference(ours)

    def _difference(self, ours: MeanStd | str | None) -> str:
        if not isinstance(ours, MeanStd) or ours.mean is None or isinstance(self.paper, str):
            return ""
        if isinstance(self.paper, tuple):
            low, high = self.paper
            uses_all_runs = min(ours.mean - low, 0) + max(ours.mean - high, 0)
            return f"{uses_all_runs:+.2f}" if uses_all_runs else "within"
        return f"{ours.mean - self.paper:+.2f}"


@dataclass(frozen=True)
class PaperFigure:
    """A figure or table of the paper, or one of its grids: drawn from the sweep of the same name."""

    name: str
    title: str
    says: str  # the paper
    draw: Callable[[Sweep], FigureResult]
    setting: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # the paper's, by setting
    claims: Sequence[Claim] = ()
    uses_all_runs: bool = False  # looks at all runs, not only at its sweep's

    @property
    def command(self) -> str:
        return f"python -m fedpan_exp sweeps={self.name}"

    def departures(self, sweep: Sweep) -> list[str]:
        """Where the runs are not what the paper ran."""
        words = [] if sweep.scale == "paper" else [f"scale={sweep.scale}"]
        for name, expected in self.setting.items():
            wanted = [show(value) for value in expected]
            runs = [run for run in sweep.runs if name not in SPLIT or run.setting("fl_scene.partition") != "natural"]
            used = list(dict.fromkeys(show(value) for run in runs if (value := run.setting(name)) is not None))
            strange = [value for value in used if value not in wanted]
            lacking = [value for value in wanted if value not in used]
            short = name.removeprefix("fl_scene.")
            if strange:
                words.append(f"{short}={listed(strange)} where the paper has {listed(wanted)}")
            elif lacking and used:
                words.append(f"without {short}={listed(lacking)}")
        return words
