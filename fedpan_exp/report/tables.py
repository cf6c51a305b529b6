"""Tables: data frames whose cells may be MeanStd, as Markdown, LaTeX (booktabs) and CSV."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fedpan_exp.report.statistics import Paired, SeedStats

LATEX = str.maketrans(
    {"±": r"$\pm$", "∘": r"$\circ$", "−": "$-$", "–": "--", "·": r"$\cdot$", "≥": r"$\geq$", "<": "$<$", ">": "$>$"}
)
MARKDOWN = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;"})


@dataclass(frozen=True)
class MeanStd:
    """A table cell: the mean and deviation of n runs, or the reason why there is none."""

    mean: float | None
    deviation: float | None = None
    n: int = 1
    remark: str = ""
    digits: int = 2
    sign: bool = False  # show a plus

    def __str__(self) -> str:
        if self.mean is None:
            return f"– ({self.remark})" if self.remark else "–"
        mean = f"{self.mean:{'+' if self.sign else ''},.{self.digits}f}"
        deviation = "" if self.deviation is None else f" ± {self.deviation:.{self.digits}f}"
        return mean + deviation + (f" ({self.remark})" if self.remark else "")


Value = MeanStd | str | int | float | None


def mean_std(stats: SeedStats, scale: float = 100, digits: int = 2) -> MeanStd:
    """In percent by default."""
    remark = f"{stats.left_out} left out" if stats.left_out else ""
    if stats.mixed:
        remark = f"runs differ in {', '.join(stats.mixed[:3])}"
    mean = None if stats.mean is None else stats.mean * scale
    return MeanStd(mean, None if stats.deviation is None else stats.deviation * scale, stats.n, remark, digits)


def gain(difference: Paired | None, scale: float = 100) -> MeanStd:
    """The mean paired difference in percentage points."""
    if difference is None or not difference.n:
        return MeanStd(None, n=0)
    deviation = None if difference.deviation is None else difference.deviation * scale
    return MeanStd(difference.mean * scale, deviation, difference.n, sign=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(columns), dtype=object)


def texts(frame: pd.DataFrame) -> pd.DataFrame:
    """What a reader sees."""
    return frame.map(_text).astype(object)


def markdown(frame: pd.DataFrame) -> str:
    escaped = texts(frame).map(lambda text: text.translate(MARKDOWN))
    escaped.columns = [name.translate(MARKDOWN) for name in frame.columns]
    return escaped.to_markdown(index=False, disable_numparse=True) + "\n"


def latex(frame: pd.DataFrame) -> str:
    columns = "l" + "r" * (len(frame.columns) - 1)
    return texts(frame).to_latex(index=False, escape=True, column_format=f"@{{}}{columns}@{{}}").translate(LATEX)


def csv(frame: pd.DataFrame) -> str:
    """In full precision, for programs; a column of MeanStd becomes three: mean, deviation and n."""
    columns: dict[str, list[Any]] = {}
    for name, cells in frame.items():
        columns[name] = [cell.mean if isinstance(cell, MeanStd) else cell for cell in cells]
        if any(isinstance(cell, MeanStd) for cell in cells):
            for part in ("deviation", "n"):
                columns[f"{name} {part}"] = [getattr(cell, part, None) for cell in cells]
    return pd.DataFrame(columns, dtype=object).to_csv(index=False, lineterminator="\n")


def _text(value: Any) -> str:
    if value is None:
        return "–"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.replace("\n", " ")
