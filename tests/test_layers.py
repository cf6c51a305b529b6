"""The layers of the package: which may import which, and that no two of them import each other."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "fedpan_exp"
ALLOWED = {
    "system": set(),
    "alignment": set(),
    "data": {"system"},
    "models": {"system", "alignment"},
    "training": {"system", "models", "data"},
    "algorithms": {"system", "models", "alignment", "data", "training"},
    "federation": {"system", "models", "data", "training", "algorithms"},
    "probes": {"system", "models", "alignment", "data", "training", "federation"},
    "tracking": {"system"},
    "plugins": {"system", "models", "data", "algorithms", "probes"},
    "config": {"system", "models", "data", "training", "algorithms", "federation", "probes", "tracking", "plugins"},
    "studies": {
        *("system", "models", "alignment", "data", "training", "algorithms", "federation", "probes", "tracking"),
        "config",
    },
    "report": {"system", "tracking"},  # it finds the studies' figures by their folders
    "figures": {"system", "tracking", "report"},  # studies/*/figure.py, and what they import of studies/
    "sweeping": {
        *("system", "models", "data", "training", "algorithms", "federation", "tracking", "config", "studies"),
        "report",
    },
    "cli": {"system", "federation", "tracking", "plugins", "config", "studies", "report", "sweeping"},
    "api": {"system", "federation", "tracking", "config", "studies", "report"},
    "templates": {"system", "models", "alignment", "data", "algorithms", "config", "studies", "tracking"},
    "__init__": {"system", "api"},
    "__main__": {"cli"},
    "runs": {"system", "tracking"},
    "misalignment": {"system", "alignment", "tracking", "report", "figures"},
    "dashboard": {"system", "tracking", "dashboard_pairs"},
    "dashboard_pairs": {"tracking", "report"},
    "selftest": {"system", "federation", "api"},
}


def layer_of(file: Path) -> str:
    return "figures" if file in FIGURES else file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(file: Path) -> set[str]:
    """Dotted names, also of imports inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def imported_files(file: Path) -> set[Path]:
    """The modules of the package that a file imports, __init__.py for a package."""
    return {found for name in imported_modules(file) if name.startswith("fedpan_exp.") and (found := file_of(name))}


def file_of(name: str) -> Path | None:
    """fedpan_exp.report.frame.load and fedpan_exp.report.frame -> report/frame.py"""
    while "." in name:
        path = PACKAGE.parent.joinpath(*name.split("."))
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.exists():
                return candidate
        name = name.rpartition(".")[0]
    return None


def figure_files() -> set[Path]:
    """studies/*/figure.py, and all of studies/ that they import."""
    files, found = set(PACKAGE.glob("studies/*/figure.py")), set()
    while files:
        found |= files
        files = {each for file in files for each in imported_files(file) if "studies" in each.parts} - found
    return found


FIGURES = figure_files()


def imported_layers(file: Path) -> set[str]:
    return {layer_of(imported) for imported in imported_files(file)} - {layer_of(file)}


def test_figures_import_no_study():
    assert len(FIGURES) > 12
    assert not [file for file in FIGURES if file.name == "study.py"]


def test_layers_import_only_what_is_below_them():
    files = list(PACKAGE.rglob("*.py"))
    assert {layer_of(file) for file in files} == ALLOWED.keys()
    for file in files:
        strange = imported_layers(file) - ALLOWED[layer_of(file)]
        assert not strange, f"{file.relative_to(PACKAGE)} must not import {strange}"


def test_no_two_layers_import_each_other():
    graph: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        graph.setdefault(layer_of(file), set()).update(imported_layers(file))
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_only_executors_know_of_several_processes():
    for file in PACKAGE.rglob("*.py"):
        if "executors" not in file.parts:
            distributed = [name for name in imported_modules(file) if name.startswith("torch.distributed")]
            assert not distributed, f"{file.relative_to(PACKAGE)} must not import {distributed}"
            assert "torch.distributed" not in file.read_text(), file
