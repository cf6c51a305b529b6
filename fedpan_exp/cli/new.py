"""python -m fedpan_exp new KIND NAME: write a plugin to start from, its YAML file and its test."""

import keyword
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

from fedpan_exp.system.console import console
from fedpan_exp.system.errors import UserError, require_choice
from fedpan_exp.system.paths import CONF, PACKAGE

TEMPLATES = PACKAGE / "templates"
KINDS = ("algorithm", "model", "dataset", "encoding", "study")


def write_plugin(args: list[str]) -> None:
    """Write the files into the current folder; existing files are not overwritten."""
    if len(args) != 2:
        raise UserError(f"new must have a kind and a name: python -m fedpan_exp new {'|'.join(KINDS)} NAME")
    kind, name = args
    require_choice("the kind of a plugin", kind, KINDS)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UserError(f"the name of a plugin must be lower-case letters, digits and _, got {name}")
    if name in _built_in(kind):
        raise UserError(f"the name of a plugin must not be that of a built-in {kind}, got {name}")
    targets = {
        TEMPLATES / f"{kind}.py": Path(f"{name}.py"),
        TEMPLATES / f"{kind}.yaml": Path("conf", kind, f"{name}.yaml"),
        TEMPLATES / f"{kind}_test.py": Path(f"test_{name}.py"),
    }
    targets = {template: target for template, target in targets.items() if template.exists()}
    if existing := [str(target) for target in targets.values() if target.exists()]:
        raise UserError(f"the files of a new plugin must not exist, got {', '.join(existing)}")
    if keyword.iskeyword(name) or _is_module(name):
        raise UserError(
            f"the name of a plugin must not be a word or a module of Python, which it would hide, got {name}"
        )
    try:
        for template, target in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_renamed(template.read_text(encoding="utf-8"), name), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{target} cannot be written ({error.strerror})") from None
    setting = "pan.encoding" if kind == "encoding" else kind
    console.print(f"wrote {', '.join(map(str, targets.values()))}", markup=False)
    console.print(f"  run it:   python -m fedpan_exp plugins=[{name}.py] {setting}={name}", markup=False)
    console.print(f"  test it:  python -m pytest {shlex.quote(f'test_{name}.py')}", markup=False)


def _built_in(kind: str) -> set[str]:
    if kind != "encoding":
        return {path.stem for path in (CONF / kind).glob("*.yaml")}
    from fedpan_exp.plugins.kinds import BUILT_IN  # late: imports torch

    return set(BUILT_IN["ENCODINGS"])


def _is_module(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.origin is not None  # a folder without Python files has no origin


def _renamed(text: str, name: str) -> str:
    camel_case = "".join(part.capitalize() for part in name.split("_"))
    return re.sub(r"(?<![a-z])example(?![a-z])", name, text).replace("Example", camel_case)
