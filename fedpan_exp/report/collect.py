"""The figures of all studies: PAPER_FIGURES and RUN_PLOTS of each studies/<name>/figure.py."""

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from fedpan_exp.report.claims import PaperFigure
from fedpan_exp.report.sweeps import Sweep

STUDIES = "fedpan_exp.studies"  # imported by name: the studies' figures are built on the report
DEFAULT = "federate"  # the study whose `unlisted_figure` draws sweeps that are not in the paper


@cache
def figure_modules() -> dict[str, ModuleType]:
    """By study. Neither the studies themselves nor torch are imported."""
    return import_module(STUDIES).load_modules("figure")


def paper_figures() -> list[PaperFigure]:
    """In the order of the paper."""
    figures = [figure for module in figure_modules().values() for figure in getattr(module, "PAPER_FIGURES", ())]
    return sorted(figures, key=lambda figure: figure.order)


def figure_of(sweep: Sweep) -> PaperFigure:
    listed = [figure for figure in paper_figures() if figure.name == sweep.name]
    return listed[0] if listed else figure_modules()[DEFAULT].unlisted_figure(sweep)


def draw_run(folder: Path) -> None:
    """The pictures in a run's own folder. Each plot reads the folder's files; one that does not apply draws nothing."""
    plots = dict.fromkeys(plot for module in figure_modules().values() for plot in getattr(module, "RUN_PLOTS", ()))
    for plot in plots:
        plot(folder)
