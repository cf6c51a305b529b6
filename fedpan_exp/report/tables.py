"""One table, three scripts: Markdown, LaTeX (booktabs) and CSV."""

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
    """A number as a table shows it: with its deviation over n runs, or with the reason why there is none."""

    mean: float | None
    deviation: float | None = None
    n: int = 1
    note: str = ""
    digits: int = 2
    sign: bool = False  # show a plus

    def __str__(self) -> str:
        if self.mean is None:
            return f"– ({self.note})" if self.note else "–"
        mean = f"{self.mean:{'+' if self.sign else ''},.{self.digits}f}"
        deviation = "" if self.deviation is None else f" ± {self.deviation:.{self.digits}f}"
        return mean + deviation + (f" ({self.note})" if self.note else "")


Value = MeanStd | str | int | float | None


def mean_std(cell: SeedStats, scale: float = 100, digits: int = 2) -> MeanStd:
    """In percent, unless told otherwise."""
    note = f"{cell.left_out} left out" if cell.left_out else ""
    if cell.mixed:
        note = f"runs differ in {', '.join(cell.mixed[:3])}"
    mean = None if cell.mean is None else cell.mean * scale
    return MeanStd(mean, None if cell.deviation is None else cell.deviation * scale, cell.n, note, digits)


def gain(difference: Paired | None, scale: float = 100) -> MeanStd:
    """In points, paired."""
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
        rows = [[_markdown(word) for word in row] for row in [list(self.columns), *self.texts()]]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([lines[0], f"|{'---|' * len(self.columns)}", *lines[1:]]) + "\n"

    def latex(self) -> str:
        head, *body = [" & ".join(map(_latex, row)) + r" \\" for row in [list(self.columns), *self.texts()]]
        columns = "l" + "r" * (len(self.columns) - 1)
        lines = [rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
        return "\n".join([*lines, r"\end{tabular}"]) + "\n"

    def csv(self) -> str:
        """For programs: full precision; a column of amounts is three, mean, deviation and n."""
        wide = [any(isinstance(row[i], MeanStd) for row in self.rows) for i in range(len(self.columns))]
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            word
            for name, is_wide in zip(self.columns, wide, strict=True)
            for word in ([name, f"{name} deviation", f"{name} n"] if is_wide else [name])
        )
        for row in self.rows:
            writer.writerow(word for value, is_wide in zip(row, wide, strict=True) for word in _spread(value, is_wide))
        return file.getvalue()


def _spread(value: Value, wide: bool) -> list[Value]:
    if isinstance(value, MeanStd):
        return [value.mean, value.deviation, value.n]
    return [value, None, None] if wide else [value]


def _text(value: Value) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _markdown(word: str) -> str:
    return word.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _latex(word: str) -> str:
    return "".join(LATEX.get(character, character) for character in word.replace("\n", " "))
