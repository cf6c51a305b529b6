"""Studies: one folder per research question, with study.py (its settings and run) and figure.py (how it is drawn).

Importing this package is cheap: figures are drawn without torch, which every study.py imports.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from fedpan_exp.system.errors import UserError

if TYPE_CHECKING:
    from fedpan_exp.studies.study import Study


def load_modules(name: str) -> dict[str, ModuleType]:
    """Import the module of this name from every folder that has one; folder name -> module."""
    folders = sorted(file.parent.name for root in __path__ for file in Path(root).glob(f"*/{name}.py"))
    return {folder: import_module(f"{__name__}.{folder}.{name}") for folder in folders}


def load_studies() -> dict[str, type["Study"]]:
    """All studies by name: in the study.py of each folder, the class with the folder's name."""
    modules = load_modules("study")
    return {folder: _named(module, folder) for folder, module in modules.items()}


def _named(module: ModuleType, name: str) -> type["Study"]:
    classes = [
        value for value in vars(module).values() if isinstance(value, type) and getattr(value, "name", "") == name
    ]
    if len(classes) != 1:
        raise UserError(f'{module.__file__} must have one study with name: str = "{name}", got {len(classes)}')
    return classes[0]
