"""The HTML page: one file with scripts, style, figures and data inline, from the templates in web/."""

import base64
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from fedpan_exp.report import tables
from fedpan_exp.report.charts import chart_data
from fedpan_exp.report.claims import PaperFigure
from fedpan_exp.report.comparison import FACETS, PAIRED
from fedpan_exp.report.describe import describe, distinguishing_keys
from fedpan_exp.report.frame import VALUE, column, each, setting_names
from fedpan_exp.tracking.archive import is_archived

if TYPE_CHECKING:
    from fedpan_exp.report.build import Drawn

WEB = Path(__file__).parent / "web"
IN_SCRIPT = str.maketrans({"<": "\\u003c", "\u2028": "\\u2028"})  # escapes in JSON inside HTML
NUMBER = re.compile(r"[+−-]?[\d.,]+%?( .*)?|–")


@dataclass(frozen=True, eq=False)
class Page:
    runs: pd.DataFrame
    drawn: Sequence["Drawn"]
    missing: Sequence[PaperFigure]
    paired: pd.DataFrame
    target: pd.DataFrame
    problems: Sequence[str]
    built: str
    watching: bool


def render(page: Page, out: Path) -> str:
    """User-given names are escaped, and reach scripts as JSON only; the content security policy forbids requests and
    all scripts but these two."""
    names = distinguishing_keys(page.runs, "seed", "pan")
    status = page.runs["status"].mask((page.runs["status"] == "done") & ~page.runs["complete"], "damaged")
    runs = page.runs.assign(
        status=status,
        label=[describe(run, names) for run in each(page.runs)],
        link=[link(folder, out) for folder in page.runs["folder"]],
        last5=(100 * column(page.runs, VALUE)).map("{:.2f}".format, na_action="ignore"),
        best=(100 * column(page.runs, "summary/best_acc")).map("{:.2f}".format, na_action="ignore"),
    )
    scripts = [get_plotlyjs(), (WEB / "page.js").read_text(encoding="utf-8")]
    data = chart_data(runs, setting_names(page.runs), names) | {"watching": page.watching}
    facets = page.paired.rename(columns={"PAN": "pan"})[[*FACETS, "pan"]]
    environment = Environment(
        loader=FileSystemLoader(WEB), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"cells": cells, "image": image, "text": tables.text_of}
    return environment.get_template("page.html").render(
        page=page,
        runs=runs,
        incomplete=runs[~runs["complete"]],
        statuses=Counter(status),
        facets={facet: sorted(runs[facet].dropna().unique()) for facet in (*FACETS, "pan", "status")},
        charts=data,
        paired=cells(page.paired[[*PAIRED]]) | {"attributes": facets.add_prefix("data-").to_dict("records")},
        style=(WEB / "page.css").read_text(encoding="utf-8"),
        scripts=scripts,
        digests=[base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts],
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(IN_SCRIPT),
    )


def link(folder: Path, out: Path) -> str:
    """The address of a run folder on the page; none of a run in an archive."""
    return "" if is_archived(folder) else f"./{quote(os.path.relpath(folder.resolve(), out.resolve()))}"


def cells(frame: pd.DataFrame) -> dict[str, Any]:
    """A table for the template: its columns, whether they are numeric, and its texts."""
    texts = tables.texts(frame)
    numeric = [i > 0 and all(map(NUMBER.fullmatch, texts[name])) for i, name in enumerate(frame.columns)]
    return {"columns": list(frame.columns), "numeric": numeric, "rows": texts.to_numpy().tolist(), "attributes": ()}


def image(svg: str) -> dict[str, Any]:
    """A figure for the template: its address and size."""
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    width, height = map(float, size.groups()) if size else (720, 400)
    encoded = base64.b64encode(svg.encode()).decode()
    return {"src": f"data:image/svg+xml;base64,{encoded}", "width": round(width), "height": round(height)}
