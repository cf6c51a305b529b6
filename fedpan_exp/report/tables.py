"""Tables: data frames whose cells may be MeanStd, as Markdown, LaTeX (booktabs) and CSV."""

from typing import Any

import pandas as pd

from fedpan_exp.report.frame import show
from fedpan_exp.report.statistics import MeanStd

LATEX = str.maketrans(
    {"±": r"$\pm$", "∘": r"$\circ$", "−": "$-$", "–": "--", "·": r"$\cdot$", "≥": r"$\geq$", "<": "$<$", ">": "$>$"}
)
MARKDOWN = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;"})


def text_of(value: Any) -> str:
    """What a reader sees."""
    return "–" if value is None or value is pd.NA or value != value else show(value).replace("\n", " ")


def texts(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.map(text_of).astype(object)


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
