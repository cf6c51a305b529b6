"""Options of the command line, as opposed to settings: Hydra's, which we only tell apart, and a few of our own."""

import re
from collections.abc import Sequence

from fedpan_exp.system.errors import UserError, hint

FLAGS = ("--help", "-h", "--version", "--hydra-help", "--resolve", "--run", "-r", "--multirun", "-m")
FLAGS_OF_SHELLS = ("--shell-completion", "-sc")
WITH_VALUE = (
    *("--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn"),
    *("--config-dir", "-cd", "--experimental-rerun", "--info", "-i"),
)
OTHER_CONFIGS = {"--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd", "--experimental-rerun"}
MULTIRUN = {"--multirun", "-m"}


def split(args: Sequence[str]) -> tuple[set[str], list[str]]:
    """Separate options from settings; an unknown option, or one between settings, is an error of one line."""
    options: set[str] = set()
    settings: list[str] = []
    rest = list(args)
    late = ""  # an option after a setting
    while rest:
        arg = rest.pop(0)
        name = arg.partition("=")[0]
        if not arg.startswith("-"):
            if late:
                raise UserError(f"{late} must come before the settings: python -m fedpan_exp {late} ...")
            if arg.startswith("~") and not arg.startswith("~hydra"):
                name = name.lstrip("~")
                raise UserError(f"{arg} would remove a setting that every experiment needs; choose a value: {name}=...")
            settings.append(arg)
        elif name in (*FLAGS, *FLAGS_OF_SHELLS, *WITH_VALUE):
            options.add(name)
            late = arg if settings else ""
            if name in WITH_VALUE and "=" not in arg and rest and re.fullmatch(r"[^-=][^=]*", rest[0]):
                rest.pop(0)
        else:
            raise UserError(
                f"{arg} is not an option{hint(name, [*FLAGS, *WITH_VALUE]) or '; --help shows what there is'}"
            )
    if "--resolve" in options and not {"--cfg", "-c"} & options:
        raise UserError(
            "--resolve needs --cfg, which prints the settings: python -m fedpan_exp --cfg job --resolve ..."
        )
    return options, settings
