"""Expand a file of sweeps/ into command lines, one per grid, at a scale."""

from collections.abc import Sequence

from fedpan_exp.config.sweep_file import read_sweep_file
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.paths import SWEEPS

# What replaces a sweep's own dataset and model at a smaller scale, unless its file sets them.
STAND_INS = {"laptop": {"dataset": "mnist", "model": "mlp"}, "smoke": {"dataset": "digits", "model": "mlp"}}


def expand(args: Sequence[str]) -> list[list[str]]:
    """Return one command line per grid of the sweep. A setting on the command line replaces the file's."""
    sweep, scale = choice(args, "sweeps"), choice(args, "scale") or "paper"
    for name, value in (("sweeps", sweep), ("scale", scale)):
        if sweep and value and "," in value:  # the file's grids would be left out
            raise ConfigError(f"{name} must be a single option with sweeps=..., got {value}")
    path = SWEEPS / f"{sweep}.yaml"
    content = read_sweep_file(path) if path.is_file() else {}  # Hydra reports a name that does not exist
    if "grids" not in content or "hydra.mode=RUN" in args:  # hydra.mode=RUN: a single job of the sweep
        return [list(args)]
    given = {_key(arg) for arg in args}
    at_scale = content.get("scales", {}).get(scale, {})
    commands = []
    for shared in content.get("for_each", [{}]):
        for grid in content["grids"]:
            chosen = shared | grid
            chosen |= {key: value for key, value in STAND_INS.get(scale, {}).items() if key in chosen} | at_scale
            swept = [f"{key}={value}" for key, value in chosen.items() if key not in given]
            commands.append(["-m", *swept, *(arg for arg in args if arg not in ("-m", "--multirun"))])
    return [
        list(command) for command in dict.fromkeys(map(tuple, commands))
    ]  # without duplicates, which stand-ins can cause


def choice(args: Sequence[str], name: str) -> str | None:
    """Return the value of a setting on the command line, if given."""
    return next((arg.partition("=")[2] for arg in reversed(args) if _key(arg) == name), None)


def _key(arg: str) -> str:
    return arg.partition("=")[0].lstrip("+~").partition("@")[0]
