"""Build the report: a folder of figures, tables and one page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from fedpan_exp.report import comparison
from fedpan_exp.report.claims import PaperFigure
from fedpan_exp.report.page import Content, render
from fedpan_exp.report.paper_figures import PAPER_FIGURES, unlisted_figure
from fedpan_exp.report.plots.figure_result import FigureResult, NoData
from fedpan_exp.report.run_collection import RunCollection, Signature, distinct
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.report.tables import Table
from fedpan_exp.system.atomic_io import WriteError, atomic_write, write_text
from fedpan_exp.system.errors import UserError, first_line, hint

# Keep text as text in an SVG, and give the same bytes for the same runs.
RC_PARAMS: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "fedpan_exp", "font.size": 9}


@dataclass(frozen=True)
class Drawn:
    """The figure of a sweep, or why it could not be drawn."""

    paper_figure: PaperFigure
    sweep: Sweep
    result: FigureResult | None
    svg: str = ""
    trouble: str = ""

    @property
    def stem(self) -> str:
        """A safe file name, whatever the sweep is called."""
        return re.sub(r"[^\w.+-]", "_", self.sweep.id).lstrip(".") or "sweep"


class Report:
    """Caches what it has drawn, so that the next build redraws only what has changed."""

    def __init__(self, folders: Sequence[Path], out: Path, only: Sequence[str] = (), target: float = 0.8):
        self.collection, self.out, self.only, self.target = RunCollection(folders), out, only, target
        self._drawn: dict[str, tuple[Signature, Drawn]] = {}

    def build(self, watching: bool = False) -> str:
        """Write everything; return one line about what was written."""
        runs = self.collection.runs()
        if not runs:
            folders = ", ".join(map(str, self.collection.folders))
            raise UserError(f"there are no runs in {folders}; make one with python -m fedpan_exp")
        sweeps, troubles = self.collection.sweeps(runs)
        if self.only:
            sweeps = [sweep for name in self.only for sweep in _select(name, sweeps)]
            runs = distinct(run for sweep in sweeps for run in sweep.runs)
        order = [paper_figure.name for paper_figure in PAPER_FIGURES]
        sweeps.sort(key=lambda sweep: order.index(sweep.name) if sweep.name in order else len(order))
        self._make_folders()
        drawn = [self._draw(sweep) for sweep in sweeps]
        comparisons = comparison.compare(runs)
        tables = {
            "paired": comparison.comparison_table(comparisons),
            "target": comparison.target_table(runs, self.target),
            "runs": comparison.run_table(runs),
        }
        for name, table in tables.items():
            self._write_table(name, table)
        names = {sweep.name for sweep in sweeps}
        missing = (
            [] if self.only else [paper_figure for paper_figure in PAPER_FIGURES if paper_figure.name not in names]
        )
        built = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        content = Content(runs, drawn, missing, comparisons, tables["target"], troubles, built, watching)
        write_text(self.out / "index.html", render(content, self.out))
        shown, complete = sum(each.result is not None for each in drawn), sum(run.complete for run in runs)
        figures = f"{shown} {'figure' if shown == 1 else 'figures'}, {len(missing)} missing"
        return f"{self.out / 'index.html'}: {figures}; {complete} of {len(runs)} runs complete"

    def _draw(self, sweep: Sweep) -> Drawn:
        paper_figure = next(
            (paper_figure for paper_figure in PAPER_FIGURES if paper_figure.name == sweep.name), None
        ) or unlisted_figure(sweep)
        used = (*sweep.runs, *(sweep.all_runs if paper_figure.uses_all_runs else ()))
        signature = (sweep.command, sweep.absent, *(self.collection.signature(run) for run in used))
        if self._drawn.get(sweep.id, ((), None))[0] != signature:
            self._drawn[sweep.id] = signature, self._redraw(paper_figure, sweep)
        return self._drawn[sweep.id][1]

    def _redraw(self, paper_figure: PaperFigure, sweep: Sweep) -> Drawn:
        try:
            with matplotlib.rc_context(RC_PARAMS):
                result = paper_figure.draw(sweep)
                drawn = Drawn(paper_figure, sweep, result)
                svg = _save(result.figure, self.out / "figures" / drawn.stem)
        except NoData as error:
            return Drawn(paper_figure, sweep, None, trouble=str(error))
        except WriteError:
            raise
        except Exception as error:  # one odd run must not prevent the other figures
            return Drawn(
                paper_figure,
                sweep,
                None,
                trouble=f"the figure could not be drawn ({type(error).__name__}: {first_line(error)})",
            )
        self._write_table(drawn.stem, result.table)
        return replace(drawn, svg=svg)

    def _make_folders(self) -> None:
        for name in ("figures", "tables"):
            try:
                (self.out / name).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise WriteError(self.out / name, error) from None

    def _write_table(self, stem: str, table: Table) -> None:
        for ending, text in (("md", table.markdown()), ("tex", table.latex()), ("csv", table.csv())):
            write_text(self.out / "tables" / f"{stem}.{ending}", text)


def _select(name: str, sweeps: Sequence[Sweep]) -> list[Sweep]:
    selected = [sweep for sweep in sweeps if sweep.name == name]
    if selected:
        return selected
    known = [paper_figure.name for paper_figure in PAPER_FIGURES]
    if name in known:
        raise UserError(f"there are no runs of the sweep {name}; make them with python -m fedpan_exp sweeps={name}")
    raise UserError(f"there is no sweep {name}{hint(name, [*known, *(sweep.name for sweep in sweeps)])}")


def _save(figure: Figure, stem: Path) -> str:
    """Save as PNG and SVG; return the SVG, which is transparent so that the page may be dark."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is done; each file would repeat it
    png, svg = (stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg"))
    atomic_write(png, lambda path: figure.savefig(path, dpi=200), flush=False)
    atomic_write(svg, lambda path: figure.savefig(path, transparent=True, metadata={"Date": None}), flush=False)
    return svg.read_text(encoding="utf-8")
