"""One page that needs nothing else: templates from web/, figures and data inside."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpan_exp.report import series
from fedpan_exp.report.claims import PaperFigure
from fedpan_exp.report.comparison import COLUMNS, Comparison
from fedpan_exp.report.runs import Run
from fedpan_exp.report.tables import Table

if TYPE_CHECKING:
    from fedpan_exp.report.build import Drawn

WEB = Path(__file__).parent / "web"
SCRIPTS = (
    "dom",
    "filters",
    "overview",
    "exhibits",
    "curves",
    "chart",
    "heat",
    "tables",
    "partition",
    "main",
)  # in this order


@dataclass(frozen=True)
class Content:
    runs: Sequence[Run]
    drawn: Sequence["Drawn"]
    missing: Sequence[PaperFigure]
    comparisons: Sequence[Comparison]
    target: Table
    troubles: Sequence[str]
    built: str
    watching: bool


def render(content: Content, out: Path) -> str:
    """What users name reaches the page as data only; a policy in its head forbids requests and any other script."""
    script = "\n".join((WEB / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(plain(content, out), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    parts = {
        "DIGEST": digest,
        "STYLE": (WEB / "page.css").read_text(encoding="utf-8"),
        "DATA": data.replace("<", "\\u003c").replace("\u2028", "\\u2028"),
        "SCRIPT": script,
    }
    head, *rest = (WEB / "page.html").read_text(encoding="utf-8").split("{{")
    return head + "".join(parts[name] + tail for name, tail in (piece.split("}}", 1) for piece in rest))


def plain(content: Content, out: Path) -> dict[str, Any]:
    """As JSON."""
    return {
        "built": content.built,
        "watching": content.watching,
        "statuses": Counter(run.status if run.whole or run.status != "done" else "damaged" for run in content.runs),
        "troubles": list(content.troubles),
        "exhibits": [_exhibit(drawn) for drawn in content.drawn],
        "missing": [{"title": e.title, "name": e.name, "command": e.command} for e in content.missing],
        "paired": {
            "columns": COLUMNS,
            "rows": [
                {"texts": Table(COLUMNS, [each.row()]).texts()[0], "facets": each.facets}
                for each in content.comparisons
            ],
        },
        "target": _table(content.target),
        **series.for_page(content.runs, out),
    }


def _exhibit(drawn: "Drawn") -> dict[str, Any]:
    paper_figure, sweep, plate = drawn.paper_figure, drawn.sweep, drawn.plate
    return {
        "id": sweep.id,
        "name": paper_figure.name,
        "title": paper_figure.title,
        "scale": sweep.scale,
        "says": paper_figure.says,
        "command": sweep.command,
        "runs": len(sweep.runs),
        "seeds": len({run.seed for run in sweep.runs if run.whole}),
        "departures": paper_figure.departures(sweep),
        "marks": sweep.marks(),
        "trouble": drawn.trouble,
        "stem": drawn.stem,
        "svg": drawn.svg,
        "notes": plate.notes if plate else [],
        "table": _table(plate.table) if plate else None,
        "claims": [claim.beside(plate.found.get(claim.key)) for claim in paper_figure.claims] if plate else [],
    }


def _table(table: Table) -> dict[str, Any]:
    return {"columns": list(table.columns), "rows": table.texts()}
