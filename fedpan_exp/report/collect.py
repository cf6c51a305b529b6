"""The figures of all studies: those of claims/*.yaml, and RUN_PLOTS of each studies/<name>/figure.py."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.figure import NoData, save
from fedpan_exp.report.frame import column, load_run, show
from fedpan_exp.report.sweeps import Sweep
from fedpan_exp.system.errors import UserError, first_line
from fedpan_exp.system.paths import CLAIMS

STUDIES = "fedpan_exp.studies"  # imported by name: the studies' figures are built on the report


@cache
def figure_modules() -> dict[str, ModuleType]:
    """studies/<name>/figure.py by name. Neither the studies themselves nor torch are imported."""
    return import_module(STUDIES).load_modules("figure")


@cache
def paper_figures() -> list[PaperFigure]:
    return [figure for path in sorted(CLAIMS.glob("*.yaml")) for figure in read_claims(path)]


def read_claims(path: Path) -> Iterator[PaperFigure]:
    """The figures of one file; a mistake in it is an error of one line."""
    name = ""
    try:
        for name, entry in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            if not name.startswith("."):
                yield _read_entry(name, **entry)
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        where = f" in {name}" if name else ""
        raise UserError(f"{path.name} must have valid claims, got a mistake{where}: {first_line(error)}") from None


def _read_entry(name: str, title: str, statement: str, draw: str, claims: Any = (), **rest: Any) -> PaperFigure:
    study, function_name = draw.split(".")
    function, arguments = getattr(figure_modules()[study], function_name), rest.pop("with", {})
    signature(function).bind_partial(None, **arguments)
    return PaperFigure(name, title, statement, function, arguments, claims=[Claim(**each) for each in claims], **rest)


def figure_of(sweep: Sweep) -> PaperFigure:
    """The figure of a sweep. One without claims is drawn by `draw` of its study, if there is one, else as the accuracy
    with PANs off and on against the first setting that has several values."""
    for figure in paper_figures():
        if figure.name == sweep.name:
            return figure
    title, statement = f"Sweep {sweep.name}", "Not a figure of the paper."
    own = getattr(figure_modules().get(sweep.runs["study"].iloc[0]), "draw", None) if len(sweep.runs) else None
    if own:
        return PaperFigure(sweep.name, title, statement, own)
    varied = [name for name in sweep.swept if column(sweep.runs, name).map(show).nunique() > 1]
    swept = [name for name in varied if name not in ("pan", "seed")]
    federate, setting = figure_modules()["federate"], swept[0] if swept else "algorithm"
    function = federate.pans if setting.startswith("pan.") else federate.off_on
    gain = Claim("gain by PANs, less the gain of choosing one (points)", "higher", "fair gain", "above 0")
    return PaperFigure(sweep.name, title, statement, function, {"settings": [setting]}, claims=[gain])


def draw_run(folder: Path) -> None:
    """The pictures in a run's own folder: those RUN_PLOTS of all studies that apply to it."""
    run = load_run(folder)
    for module in figure_modules().values():
        for name, plot in getattr(module, "RUN_PLOTS", {}).items():
            try:
                save(plot(run).figure, folder, name)
            except NoData:
                continue
