"""The HTML page: one file with scripts, style, figures and data inline, from the templates in web/."""

import base64
import gzip
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

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from fedpan_exp.report import tables
from fedpan_exp.report.claims import PaperFigure
from fedpan_exp.report.comparison import FACETS, PAIRED
from fedpan_exp.report.describe import describe, distinguishing_keys
from fedpan_exp.report.frame import COLUMNS, VALUE, column, each, key, records, show
from fedpan_exp.report.statistics import pair_gains

if TYPE_CHECKING:
    from fedpan_exp.report.build import Drawn

WEB = Path(__file__).parent / "web"
METRICS = {
    "global/test_acc": "test accuracy (%)",
    "global/test_loss": "test loss",
    "train/loss": "training loss",
    "clients/divergence": "divergence of clients",
    "local/post_acc": "local accuracy (%)",
}
AXES = {  # what curves are drawn against: its label, and the columns that are summed over rounds
    "round": ("rounds", ()),
    "samples": ("samples trained on", ("train/samples",)),
    "bytes": ("bytes sent", ("comm/up_bytes", "comm/down_bytes")),
    "seconds": ("seconds in rounds", ("time/round_s",)),
}
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6FD1", "#8C8C8C"]
DASHES = ("dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "triangle-down", "star")
FIXED = ("dataset.name", "model.name")  # a heat map is of one dataset and network
HEAT_FIRST = ("fl_scene.alpha", "pan.A", "algorithm.name")  # settings that the heat map shows first
IN_SCRIPT = str.maketrans({"<": "\\u003c", "\u2028": "\\u2028"})  # escapes in JSON inside HTML
CLIENTS = 100  # of a partition; more would not be legible


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
    runs = page.runs.assign(
        status=page.runs["status"].mask((page.runs["status"] == "done") & ~page.runs["complete"], "damaged")
    )
    names = distinguishing_keys(runs, "seed", "pan")
    runs["label"] = [describe(run, names) for run in each(runs)]
    scripts = [get_plotlyjs(), (WEB / "page.js").read_text(encoding="utf-8")]
    data = chart_data(runs) | {"watching": page.watching}
    networks = Counter(run["network"] for run in data["runs"] if run["value"] is not None)
    environment = Environment(
        loader=FileSystemLoader(WEB), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"cells": cells, "image": image, "text": _text}
    return environment.get_template("page.html").render(
        page=page,
        runs=runs.assign(
            link=[f"./{quote(os.path.relpath(folder.resolve(), out.resolve()))}" for folder in runs["folder"]],
            last5=(100 * column(runs, VALUE)).map("{:.2f}".format, na_action="ignore"),
            best=(100 * column(runs, "summary/best_acc")).map("{:.2f}".format, na_action="ignore"),
        ),
        incomplete=runs[~runs["complete"]],
        statuses=Counter(runs["status"]),
        facets={facet: sorted(runs[facet].dropna().unique()) for facet in (*FACETS, "pan", "status")},
        metrics=data["metrics"],
        axes=data["axes"],
        heat=[(name, name) for name in sorted(data["varying"], key=_heat_order)],
        networks=[(name, name) for name, _ in networks.most_common()],
        has_partition=bool(data["partitions"]),
        paired=cells(page.paired[[*PAIRED]]),
        paired_facets=page.paired.rename(columns={"PAN": "pan"})[[*FACETS, "pan"]]
        .add_prefix("data-")
        .to_dict("records"),
        style=(WEB / "page.css").read_text(encoding="utf-8"),
        scripts=scripts,
        digests=[base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts],
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(IN_SCRIPT),
    )


def cells(frame: pd.DataFrame) -> dict[str, Any]:
    """A table for the template: its columns, whether they are numeric, and its texts."""
    texts = tables.texts(frame)
    numeric = [all(map(_looks_numeric, texts[name])) and i > 0 for i, name in enumerate(frame.columns)]
    return {"columns": list(frame.columns), "numeric": numeric, "rows": texts.to_numpy().tolist()}


def image(svg: str) -> dict[str, Any]:
    """A figure for the template: its address and size."""
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    width, height = map(float, size.groups()) if size else (720, 400)
    encoded = base64.b64encode(svg.encode()).decode()
    return {"src": f"data:image/svg+xml;base64,{encoded}", "width": round(width), "height": round(height)}


def chart_data(runs: pd.DataFrame) -> dict[str, Any]:
    """What the charts are drawn from in the browser."""
    names = [
        name for name in runs if name == "seed" or (name not in (*COLUMNS, "label") and not name.startswith("summary/"))
    ]
    settings = {name: _distinct(runs[name].map(_text)) for name in names}
    varying = [*distinguishing_keys(runs, "seed", "pan"), "pan.mode", "pan.A", "pan.T", "seed"]
    curves = [curve(folder) for folder in runs["folder"]]
    partitions, partition_codes = _distinct(partition(folder) for folder in runs["folder"])
    shown = runs.assign(
        name=runs.index,
        index=range(len(runs)),
        network=runs["dataset"].map(_text) + ", " + runs["model"].map(_text),
        value=column(runs, VALUE).where(runs["complete"]),
        gain=pair_gains(runs),
        group=_distinct(key(runs, "seed"))[1],
        base=_distinct(key(runs, "seed", "pan"))[1],
        partition=partition_codes,
        curve=[pack(each) for each in curves],
    )
    fields = [
        "name",
        "index",
        *FACETS,
        "pan",
        "status",
        "seed",
        "label",
        "network",
        "value",
        "gain",
        "group",
        "base",
        "partition",
        "curve",
    ]
    rounds = [each["round"].tobytes() if each else b"" for each in curves]
    by_setting = shown["name"].where(~runs["complete"], list(zip(shown["group"], rounds, strict=True)))
    return {
        "runs": shown[fields].astype(object).where(shown[fields].notna(), None).to_dict("records"),
        "settings": settings,
        "varying": [name for name in varying if name in names and len(settings[name][0]) > 1 and name not in FIXED],
        "lines": {"setting": lines(shown, by_setting), "run": lines(shown, shown["name"])},
        "metrics": {name: label for name, label in METRICS.items() if any(name in each for each in curves)},
        "axes": {name: label for name, (label, _) in AXES.items()},
        "partitions": [compress(text) for text in partitions],
    }


def lines(runs: pd.DataFrame, by: pd.Series) -> list[dict[str, Any]]:
    """The lines of the curves. PANs off and on share a colour: off is solid, and each PAN has its own dashes."""
    result = []
    for _, group in runs[runs["curve"].notna()].groupby(by, sort=False):
        first = group.iloc[0]
        pans = runs["pan"][(runs["base"] == first["base"]) & (runs["pan"] != "off")].unique().tolist()
        dash = "solid" if first["pan"] == "off" else DASHES[pans.index(first["pan"]) % len(DASHES)]
        pan = "PANs off" if first["pan"] == "off" else first["pan"]
        seeds = f"mean of {len(group)} seeds" if len(group) > 1 else f"seed {_text(first['seed'])}"
        unfinished = "" if first["status"] == "done" else f" [{first['status']}]"
        style = {
            "line": {"color": COLOURS[first["base"] % len(COLOURS)], "dash": dash},
            "marker": {"symbol": SYMBOLS[len(result) % len(SYMBOLS)], "size": 6, "maxdisplayed": 9},
        }
        label = " · ".join(filter(None, (first["label"], pan, seeds))) + unfinished
        result.append({"name": first["name"], "label": label, "runs": group["index"].tolist(), "style": style})
    return sorted(result, key=lambda line: (runs.loc[line["name"], "status"] != "done", line["label"]))


def curve(folder: Path) -> dict[str, np.ndarray]:
    """Metrics in the tested rounds, and what was added to each axis since the tested round before."""
    rows = records(folder)
    metrics = [name for name in METRICS if name in rows and pd.api.types.is_numeric_dtype(rows[name])]
    if not metrics:
        return {}
    tested = rows[metrics[0]].notna()
    totals = {
        name: sum((column(rows, part).fillna(0) for part in parts), start=0 * rows["round"]).cumsum()
        for name, (_, parts) in AXES.items()
    } | {"round": rows["round"]}
    steps = {name: np.diff(total[tested], prepend=0) for name, total in totals.items()}
    return {**steps, **{name: rows.loc[tested, name].to_numpy() for name in metrics}}


def pack(columns: dict[str, np.ndarray]) -> str | None:
    """JSON in five digits, compressed, so that a page has room for all rounds."""
    values = {name: ",".join(map("{:.5g}".format, column.tolist())) for name, column in columns.items()}
    text = ",".join(f'"{name}":[{re.sub("nan|-?inf", "null", numbers)}]' for name, numbers in values.items())
    return compress(f"{{{text}}}") if columns else None


def compress(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def partition(folder: Path) -> str | None:
    """A Plotly trace of the samples by client and label, and a remark, as JSON."""
    try:
        samples = pd.read_csv(folder / "partition.csv").iloc[:, 2:].astype(int).to_numpy()
    except (OSError, ValueError):
        return None
    if not samples.size:
        return None
    shown = samples[:CLIENTS]
    client, label = np.nonzero(shown)
    size, sums = shown[client, label].tolist(), shown.sum(axis=1)
    colours = [COLOURS[each % len(COLOURS)] for each in label]
    trace = {
        **{"mode": "markers", "x": client.tolist(), "y": label.tolist(), "customdata": size},
        "marker": {"size": size, "sizemode": "area", "sizeref": int(shown.max()) / 128, "sizemin": 1, "color": colours},
        "hovertemplate": "client %{x}, label %{y}: %{customdata} samples<extra></extra>",
    }
    clients = f"the first {CLIENTS} of {len(samples)} clients" if len(samples) > CLIENTS else f"{len(samples)} clients"
    remark = f"{clients}, {sums.min()} to {sums.max()} samples; largest dot: {shown.max()} samples."
    return json.dumps({"trace": trace, "remark": remark})


def _distinct(values: Any) -> tuple[list[Any], list[int]]:
    """The distinct values, and the position of each value among them; -1 for None."""
    distinct: dict[str, tuple[int, Any]] = {}
    codes = [-1 if value is None else distinct.setdefault(repr(value), (len(distinct), value))[0] for value in values]
    return [value for _, value in distinct.values()], codes


def _heat_order(name: str) -> int:
    return HEAT_FIRST.index(name) if name in HEAT_FIRST else len(HEAT_FIRST)


def _text(value: Any) -> str:
    return "–" if value is None or (isinstance(value, float) and np.isnan(value)) else show(value)


def _looks_numeric(text: str) -> bool:
    return re.match(r"[+−-]?[\d.,]+%?( |$)", text) is not None or text == "–"
