"""The data of the page's charts: whole curves, partitions, the settings of all runs, and Plotly's constant parts."""

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedpan_exp.report.comparison import FACETS
from fedpan_exp.report.frame import VALUE, column, each, key, records
from fedpan_exp.report.statistics import pair_gains
from fedpan_exp.report.style import SERIES
from fedpan_exp.report.tables import text_of

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
COLOURS = (*SERIES[:6], "#8A6FD1", "#8C8C8C")  # black and dark grey would not be seen on a dark page
DASHES = ("dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "triangle-down", "star")
HEAT_FIRST = ("fl_scene.alpha", "pan.A", "algorithm.name")  # settings that the heat map shows first
# Plotly's options that do not depend on filters or theme. Its button "Share chart" would send data to a server.
PLOTLY: dict[str, Any] = json.loads((Path(__file__).parent / "web" / "charts.json").read_text(encoding="utf-8"))
CLIENTS = 100  # of a partition; more would not be legible
FEW = 12  # clients; Plotly would write numbers between them on the axis


def chart_data(runs: pd.DataFrame, names: Sequence[str], distinguishing: Sequence[str]) -> dict[str, Any]:
    """All that the charts are drawn from in the browser; `names` are those of settings."""
    curves = [curve(run["folder"], branch_of(run, runs)) for run in each(runs)]
    partitions = {
        text: f"{run.label or run.dataset} · seed {text_of(run.seed)}"
        for run in runs.itertuples()
        if (text := partition(run.folder))
    }
    shown = runs[[*FACETS, "pan", "status", "seed", "label"]].assign(
        name=runs.index,
        index=range(len(runs)),
        network=runs["dataset"].map(text_of) + ", " + runs["model"].map(text_of),
        value=column(runs, VALUE).where(runs["complete"]),
        gain=pair_gains(runs),
        group=pd.factorize(key(runs, "seed"))[0],
        base=pd.factorize(key(runs, "seed", "pan"))[0],
        curve=[pack(columns) for columns in curves],
    )
    rounds = [hash(columns["round"].tobytes()) if columns else 0 for columns in curves]
    seeds = pd.Series(list(zip(shown["group"], rounds, strict=True)), runs.index).where(runs["complete"], shown["name"])
    settings = {name: pd.factorize(runs[name].map(text_of)) for name in names}
    varying = [name for name in (*distinguishing, "pan.mode", "pan.A", "pan.T", "seed") if name in settings]
    varying = [name for name in varying if len(settings[name][1]) > 1 and name not in ("dataset.name", "model.name")]
    return PLOTLY | {
        "runs": shown.astype(object).where(shown.notna(), None).to_dict("records"),
        "settings": {name: [values.tolist(), codes.tolist()] for name, (codes, values) in settings.items()},
        "varying": sorted(varying, key=lambda name: [*HEAT_FIRST, name].index(name)),
        "networks": [network for network, _ in Counter(shown["network"][shown["value"].notna()]).most_common()],
        "lines": {"setting": lines(shown, seeds), "run": lines(shown, shown["name"])},
        "metrics": {name: label for name, label in METRICS.items() if any(name in columns for columns in curves)},
        "axes": {name: label for name, (label, _) in AXES.items()},
        "partitions": [compress(text) for text in partitions],
        "partition_names": [(str(i), name) for i, name in enumerate(partitions.values())],
    }


def lines(runs: pd.DataFrame, by: pd.Series) -> list[dict[str, Any]]:
    """The lines of the curves. PANs off and the first PAN share a colour: off is solid, each PAN has its own dashes."""
    result: list[dict[str, Any]] = []
    colours: dict[tuple[int, int], str] = {}
    for _, group in runs[runs["curve"].notna()].groupby(by, sort=False):
        first = group.iloc[0]
        pans = runs["pan"][(runs["base"] == first["base"]) & (runs["pan"] != "off")].unique().tolist()
        place = -1 if first["pan"] == "off" else pans.index(first["pan"])
        dash = "solid" if place < 0 else DASHES[place % len(DASHES)]
        colour = colours.setdefault((first["base"], max(place, 0)), COLOURS[len(colours) % len(COLOURS)])
        pan = "PANs off" if first["pan"] == "off" else first["pan"]
        seeds = f"mean of {len(group)} seeds" if len(group) > 1 else f"seed {text_of(first['seed'])}"
        unfinished = "" if first["status"] == "done" else f" [{first['status']}]"
        style = {
            "line": {"color": colour, "dash": dash},
            "marker": {"symbol": SYMBOLS[len(result) % len(SYMBOLS)], "size": 6, "maxdisplayed": 9},
        }
        label = " · ".join(filter(None, (first["label"], pan, seeds))) + unfinished
        result.append({"name": first["name"], "label": label, "runs": group["index"].tolist(), "style": style})
    return sorted(result, key=lambda line: _line_order(runs.loc[line["name"]]))


def _line_order(run: pd.Series) -> tuple[bool, str, bool, str]:
    """Finished runs first; PANs off before on."""
    return run["status"] != "done", run["label"], run["pan"] != "off", run["pan"]


def branch_of(run: pd.Series, runs: pd.DataFrame) -> int:
    """The round after which a run was forked from another one of these runs; 0 if it was not."""
    parent, _, round_idx = str(run.get("fork") or "").rpartition("@")
    return int(round_idx) if Path(parent).name in runs.index else 0


def curve(folder: Path, first_round: int = 0) -> dict[str, np.ndarray]:
    """Metrics in the tested rounds, and what was added to each axis since the tested round before.

    The curve of a fork begins at the last round of its parent: before it there is one line.
    """
    rows = records(folder)
    metrics = [name for name in METRICS if name in rows and pd.api.types.is_numeric_dtype(rows[name])]
    if not metrics:
        return {}
    tested = rows[metrics[0]].notna() & (rows["round"] >= first_round)
    totals = {
        name: sum((column(rows, part).fillna(0) for part in parts), start=0 * rows["round"]).cumsum()
        for name, (_, parts) in AXES.items()
    } | {"round": rows["round"]}
    steps = {name: np.diff(total[tested], prepend=0) for name, total in totals.items()}
    return {**steps, **{name: rows.loc[tested, name].to_numpy() for name in metrics}}


def pack(columns: dict[str, np.ndarray]) -> str | None:
    """JSON in four digits, compressed, so that a page has room for all rounds."""
    values = {name: ",".join(map("{:.4g}".format, column.tolist())) for name, column in columns.items()}
    text = ",".join(f'"{name}":[{re.sub("nan|-?inf", "null", numbers)}]' for name, numbers in values.items())
    return compress(f"{{{text}}}") if columns else None


def compress(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def partition(folder: Path) -> str | None:
    """A Plotly trace of the samples by client and label, a remark and the layout of the axis, as JSON."""
    try:
        samples = pd.read_csv(folder / "partition.csv").iloc[:, 2:].astype(int).to_numpy()
    except (OSError, ValueError):
        return None
    if not samples.size:
        return None
    shown = samples[:CLIENTS]
    client, label = np.nonzero(shown)
    size, sums = shown[client, label].tolist(), shown.sum(axis=1)
    colours = [COLOURS[i % len(COLOURS)] for i in label]
    trace = {
        **{"mode": "markers", "x": client.tolist(), "y": label.tolist()},
        "marker": {"size": size, "sizemode": "area", "sizeref": int(shown.max()) / 128, "sizemin": 1, "color": colours},
        "hovertemplate": "client %{x}, label %{y}: %{marker.size} samples<extra></extra>",
    }
    clients = f"the first {CLIENTS} of {len(samples)} clients" if len(samples) > CLIENTS else f"{len(samples)} clients"
    remark = f"{clients}, {sums.min()} to {sums.max()} samples; largest dot: {shown.max()} samples."
    layout = {"xaxis": {"dtick": 1}} if len(shown) < FEW else {}
    return json.dumps({"trace": trace, "remark": remark, "layout": layout})
