"""Build the report: a folder of figures, tables and one page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from fedpan_exp.report import comparison, tables, verdicts
from fedpan_exp.report.claims import PaperFigure
from fedpan_exp.report.collect import figure_of, paper_figures
from fedpan_exp.report.figure import FigureResult, NoData
from fedpan_exp.report.frame import Signature, file_signature, load, run_folders, signature
from fedpan_exp.report.page import Page, render
from fedpan_exp.report.sweeps import Sweep, listings, read_sweeps
from fedpan_exp.system.atomic_io import WriteError, atomic_write, write_text
from fedpan_exp.system.errors import UserError, first_line, hint

# Keep text as text in an SVG, and give the same bytes for the same runs.
RC_PARAMS: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "fedpan_exp", "font.size": 9}


@dataclass(frozen=True, eq=False)
class Drawn:
    """The figure of a sweep, or why it could not be drawn."""

    paper_figure: PaperFigure
    sweep: Sweep
    result: FigureResult | None = None
    svg: str = ""
    problem: str = ""

    @property
    def stem(self) -> str:
        """A safe file name, whatever the sweep is called."""
        return re.sub(r"[^\w.+-]", "_", self.sweep.id).lstrip(".") or "sweep"


class Report:
    """Caches what it has drawn, so that the next build redraws only what has changed."""

    def __init__(self, folders: Sequence[Path], out: Path, only: Sequence[str] = (), target: float = 0.8):
        self.folders, self.out, self.only, self.target = folders, out, only, target
        self._drawn: dict[str, tuple[Signature, Drawn]] = {}
        self.judged: list[verdicts.Judged] = []  # the claims, as of the last build

    def state(self) -> Signature:
        """Changes whenever a file of a run or a sweep does."""
        runs = ((folder, signature(folder)) for folder in run_folders(self.folders))
        return *runs, *((path, file_signature(path)) for path in listings(self.folders))

    def build(self, watching: bool = False) -> str:
        """Write everything; return one line about what was written."""
        runs = load(*self.folders)
        if runs.empty:
            folders = ", ".join(map(str, self.folders))
            raise UserError(f"there are no runs in {folders}; make one with python -m fedpan_exp")
        sweeps, problems = read_sweeps(self.folders, runs)
        figures = paper_figures()
        if self.only:
            sweeps = [sweep for name in self.only for sweep in _select(name, sweeps, figures)]
            runs = runs[runs.index.isin([run for sweep in sweeps for run in sweep.runs.index])]
        order = [figure.name for figure in figures]
        sweeps.sort(key=lambda sweep: order.index(sweep.name) if sweep.name in order else len(order))
        self._make_folders()
        drawn = [self._draw(sweep) for sweep in sweeps]
        paired, target = comparison.paired_table(runs), comparison.target_table(runs, self.target)
        self._write_table("paired", paired[[*comparison.PAIRED]])
        self._write_table("target", target)
        self._write_table("runs", comparison.run_table(runs))
        names = {sweep.name for sweep in sweeps}
        missing = [] if self.only else [figure for figure in figures if figure.name not in names]
        results = [(each.paper_figure, each.sweep, each.result.findings if each.result else {}) for each in drawn]
        self.judged = verdicts.judge(results, missing)
        self._write_table("claims", verdicts.verdict_table(self.judged))
        if figure := verdicts.draw_verdicts(self.judged):
            _save(figure, self.out / "figures" / "claims")
        built = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        page = Page(runs, drawn, missing, paired, target, problems, built, watching)
        write_text(self.out / "index.html", render(page, self.out))
        shown, complete = sum(each.result is not None for each in drawn), runs["complete"].sum()
        counts = f"{shown} {'figure' if shown == 1 else 'figures'}, {len(missing)} missing"
        return f"{self.out / 'index.html'}: {counts}; {complete} of {len(runs)} runs complete"

    def _draw(self, sweep: Sweep) -> Drawn:
        figure = figure_of(sweep)
        used = sweep.all_runs if figure.uses_all_runs else sweep.runs
        state = (sweep.command, tuple(sweep.runs.index), sweep.absent, *map(signature, used["folder"]))
        if self._drawn.get(sweep.id, ((), None))[0] != state:
            self._drawn[sweep.id] = state, self._redraw(figure, sweep)
        return self._drawn[sweep.id][1]

    def _redraw(self, figure: PaperFigure, sweep: Sweep) -> Drawn:
        drawn = Drawn(figure, sweep)
        try:
            with matplotlib.rc_context(RC_PARAMS):
                result = figure.draw(sweep)
                svg = _save(result.figure, self.out / "figures" / drawn.stem)
        except NoData as error:
            return replace(drawn, problem=str(error))
        except WriteError:
            raise
        except Exception as error:  # one odd run must not prevent the other figures
            problem = f"the figure could not be drawn ({type(error).__name__}: {first_line(error)})"
            return replace(drawn, problem=problem)
        self._write_table(drawn.stem, result.table)
        return replace(drawn, result=result, svg=svg)

    def _make_folders(self) -> None:
        for name in ("figures", "tables"):
            try:
                (self.out / name).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise WriteError.of(self.out / name, error) from None

    def _write_table(self, stem: str, table: pd.DataFrame) -> None:
        for ending, write in (("md", tables.markdown), ("tex", tables.latex), ("csv", tables.csv)):
            write_text(self.out / "tables" / f"{stem}.{ending}", write(table))


def _select(name: str, sweeps: Sequence[Sweep], figures: Sequence[PaperFigure]) -> list[Sweep]:
    selected = [sweep for sweep in sweeps if sweep.name == name]
    if any(len(sweep.runs) for sweep in selected):
        return selected
    known = [figure.name for figure in figures]
    if selected or name in known:
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
