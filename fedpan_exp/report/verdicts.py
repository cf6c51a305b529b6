"""A verdict per claim of the paper: what the runs show, how sure that is, and what it would take to know."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.confidence_sequence import half_width, values_needed
from fedpan_exp.report.figure import Findings, panels
from fedpan_exp.report.statistics import LEVEL, MeanStd
from fedpan_exp.report.style import GREY
from fedpan_exp.report.sweeps import Sweep

SUPPORTED, REFUTED, UNDECIDED, MEASURED, NOT_RUN = "supported", "refuted", "undecided", "measured", "not run"
VERDICTS = (SUPPORTED, REFUTED, UNDECIDED, MEASURED, NOT_RUN)
COLOURS = {SUPPORTED: "#2a7f3f", REFUTED: "#b3261e", UNDECIDED: GREY}


@dataclass(frozen=True)
class Judged:
    """A claim at one scale. Without a range or an interval there is only the measurement."""

    figure: PaperFigure
    claim: Claim
    scale: str
    ours: MeanStd | str | None
    is_comparable: bool  # whether the runs have the paper's settings

    @property
    def interval(self) -> tuple[float, float] | None:
        """Holds at whatever number of seeds one looks at it (confidence_sequence.py)."""
        if not isinstance(self.ours, MeanStd) or math.isnan(self.ours.deviation):
            return None
        width = half_width(self.ours.n, LEVEL)
        if math.isinf(width):
            return None
        return self.ours.mean - width * self.ours.deviation, self.ours.mean + width * self.ours.deviation

    @property
    def allowed(self) -> tuple[float, float] | None:
        """What the claim allows. Numbers of the paper are compared only with runs of its settings, signs always."""
        low, high = self.claim.range
        is_sign = math.isinf(low) or math.isinf(high)
        return (low, high) if not math.isnan(low) and (is_sign or self.is_comparable) else None

    @property
    def verdict(self) -> str:
        if not self.ours or (isinstance(self.ours, MeanStd) and math.isnan(self.ours.mean)):
            return NOT_RUN
        if self.allowed is None or isinstance(self.ours, str):
            return MEASURED
        if self.interval is None:
            return UNDECIDED
        (low, high), (lowest, highest) = self.interval, self.allowed
        if lowest <= low and high <= highest:
            return SUPPORTED
        return REFUTED if high < lowest or low > highest else UNDECIDED

    @property
    def seeds_needed(self) -> int | None:
        """Seeds after which the interval no longer has an end of the range in it, if mean and deviation stay."""
        if not isinstance(self.ours, MeanStd) or self.allowed is None or math.isnan(self.ours.deviation):
            return None
        distance = min(abs(self.ours.mean - end) for end in self.allowed)
        return values_needed(self.ours.deviation, distance, LEVEL)

    def row(self) -> dict[str, str]:
        needed = self.seeds_needed if self.verdict == UNDECIDED else None
        low, high = self.interval or (math.nan, math.nan)
        _, paper, ours, _ = self.claim.row(self.ours)
        return {
            "figure": self.figure.name,
            "claim": self.claim.claim,
            "paper": paper,
            "ours": ours if self.ours else "",
            "interval": "" if math.isnan(low) else f"{low:+.2f} to {high:+.2f}",
            "n": str(self.ours.n) if isinstance(self.ours, MeanStd) else "",
            "scale": self.scale,
            "verdict": self.verdict + (f" (about {needed} would decide)" if needed else ""),
            "command": self.figure.command + ("" if self.scale in ("", "paper") else f" scale={self.scale}"),
        }


def judge(drawn: Iterable[tuple[PaperFigure, Sweep, Findings]], missing: Iterable[PaperFigure]) -> list[Judged]:
    """The claims of all figures, one entry per scale at which there are runs."""
    judged = [
        Judged(figure, claim, sweep.scale, findings.get(claim.finding), not figure.differences_from_paper(sweep))
        for figure, sweep, findings in drawn
        for claim in figure.claims
    ]
    return judged + [Judged(figure, claim, "", None, False) for figure in missing for claim in figure.claims]


def verdict_table(judged: Sequence[Judged]) -> pd.DataFrame:
    return pd.DataFrame([each.row() for each in judged])


def count_verdicts(judged: Sequence[Judged]) -> str:
    """3 supported, 1 refuted, ..."""
    counts = pd.Series([each.verdict for each in judged], dtype=object).value_counts()
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if verdict in counts)


def draw_verdicts(judged: Sequence[Judged]) -> Figure | None:
    """Intervals of the claims on signs, which have points as their unit; None without any."""
    shown = [each for each in judged if each.interval and each.claim.holds]
    if not shown:
        return None
    title = f"{LEVEL:.0%} intervals, valid at any number of seeds"
    figure, (axes,) = panels([title], xlabel="points", size=(7.0, 0.9 + 0.42 * len(shown)))
    for y, each in enumerate(reversed(shown)):
        low, high = each.interval or (math.nan, math.nan)
        axes.plot((low, high), (y, y), color=COLOURS[each.verdict], linewidth=2)
        axes.plot((low + high) / 2, y, "o", color=COLOURS[each.verdict], markersize=5)
    axes.axvline(0, color=GREY, linewidth=1)
    names = [
        f"{each.claim.claim.removesuffix(' (points)')}\n{each.figure.name}, {each.scale}: {each.verdict}"
        for each in reversed(shown)
    ]
    axes.set_yticks(np.arange(len(shown)), names, fontsize=8)
    return figure
