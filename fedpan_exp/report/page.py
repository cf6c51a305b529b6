"""The HTML page: one file with scripts, style, figures and data inline, from the templates in web/."""

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
    "figures",
    "curves",
    "chart",
    "heat",
    "tables",
    "partition",
    "main",
)  # in the order of execution


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
    """User-given names reach the page as JSON only; its content security policy forbids requests and other scripts."""
    script = "\n".join((WEB / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(to_json(content, out), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    parts = {
        "DIGEST": digest,
        "STYLE": (WEB / "page.css").read_text(encoding="utf-8"),
        "DATA": data.replace("<", "\\u003c").replace("\u2028", "\\u2028"),
        "SCRIPT": script,
    }
    head, *rest = (WEB / "page.html").read_text(encoding="utf-8").split("{{")
    return head + "".join(parts[name] + tail for name, tail in (piece.split("}}", 1) for piece in rest))


def to_json(content: Content, out: Path) -> dict[str, Any]:
    return {
        "built": content.built,
        "watching": content.watching,
        "statuses": Counter(run.status if run.complete or run.status != "done" else "damaged" for run in content.runs),
        "troubles": list(content.troubles),
        "figures": [_figure(drawn) for drawn in content.drawn],
        "missing": [{"title": f.title, "name": f.name, "command": f.command} for f in content.missing],
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


def _figure(drawn: "Drawn") -> dict[str, Any]:
    paper_figure, sweep, result = drawn.paper_figure, drawn.sweep, drawn.result
    return {
        "id": sweep.id,
        "name": paper_figure.name,
        "title": paper_figure.title,
        "scale": sweep.scale,
        "statement": paper_figure.statement,
        "command": sweep.command,
        "runs": len(sweep.runs),
        "seeds": len({run.seed for run in sweep.runs if run.complete}),
        "differences": paper_figure.differences_from_paper(sweep),
        "warnings": sweep.warnings(),
        "trouble": drawn.trouble,
        "stem": drawn.stem,
        "svg": drawn.svg,
        "footnotes": result.footnotes if result else [],
        "table": _table(result.table) if result else None,
        "claims": [claim.row(result.findings.get(claim.key)) for claim in paper_figure.claims] if result else [],
    }


def _table(table: Table) -> dict[str, Any]:
    return {"columns": list(table.columns), "rows": table.texts()}
