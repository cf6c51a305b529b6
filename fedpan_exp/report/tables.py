"""Tables as Markdown, LaTeX (booktabs) and CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from fedpan_exp.report.pairing import Paired
from fedpan_exp.report.statistics import SeedStats

LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$"},
    **{"±": r"$\pm$", "∘": r"$\circ$", "−": "$-$", "–": "--", "·": r"$\cdot$", "≥": r"$\geq$"},
}


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


@dataclass(frozen=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]

    def texts(self) -> list[list[str]]:
        return [[_text(value) for value in row] for row in self.rows]

    def markdown(self) -> str:
        rows = [[_markdown(text) for text in row] for row in [list(self.columns), *self.texts()]]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([lines[0], f"|{'---|' * len(self.columns)}", *lines[1:]]) + "\n"

    def latex(self) -> str:
        head, *body = [" & ".join(map(_latex, row)) + r" \\" for row in [list(self.columns), *self.texts()]]
        columns = "l" + "r" * (len(self.columns) - 1)
        lines = [rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
        return "\n".join([*lines, r"\end{tabular}"]) + "\n"

    def csv(self) -> str:
        """In full precision, for programs; a column of MeanStd becomes three: mean, deviation and n."""
        wide = [any(isinstance(row[i], MeanStd) for row in self.rows) for i in range(len(self.columns))]
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            column
            for name, is_wide in zip(self.columns, wide, strict=True)
            for column in ([name, f"{name} deviation", f"{name} n"] if is_wide else [name])
        )
        for row in self.rows:
            writer.writerow(cell for value, is_wide in zip(row, wide, strict=True) for cell in _spread(value, is_wide))
        return file.getvalue()


def _spread(value: Value, wide: bool) -> list[Value]:
    if isinstance(value, MeanStd):
        return [value.mean, value.deviation, value.n]
    return [value, None, None] if wide else [value]


def _text(value: Value) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text.replace("\n", " "))
