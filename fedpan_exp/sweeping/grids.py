"""A file of sweeps/: grids of settings, as words for the command line, cut to a scale."""

from collections.abc import Sequence

from fedpan_exp.config.sweep_file import read_sweep_file
from fedpan_exp.system.errors import ConfigError
from fedpan_exp.system.paths import SWEEPS

# What a sweep's own dataset and model become at a smaller scale, unless its file says otherwise.
STAND_INS = {"laptop": {"dataset": "mnist", "model": "mlp"}, "smoke": {"dataset": "digits", "model": "mlp"}}


def expand(words: Sequence[str]) -> list[list[str]]:
    """The command line once for each grid of its sweep; a setting given by hand replaces the file's."""
    sweep, scale = choice(words, "sweeps"), choice(words, "scale") or "paper"
    for name, value in (("sweeps", sweep), ("scale", scale)):
        if sweep and value and "," in value:  # the file's grids would be left out
            raise ConfigError(f"{name} must be one of them at a time with sweeps=..., got {value}")
    path = SWEEPS / f"{sweep}.yaml"
    content = (
        read_sweep_file(path) if path.is_file() else {}
    )  # Hydra has the better words for a name that does not exist
    if "grids" not in content or "hydra.mode=RUN" in words:  # one job of it, to be done again
        return [list(words)]
    given = {_key(word) for word in words}
    at_scale = content.get("scales", {}).get(scale, {})
    commands = []
    for shared in content.get("for_each", [{}]):
        for grid in content["grids"]:
            chosen = shared | grid
            chosen |= {key: value for key, value in STAND_INS.get(scale, {}).items() if key in chosen} | at_scale
            swept = [f"{key}={value}" for key, value in chosen.items() if key not in given]
            commands.append(["-m", *swept, *(word for word in words if word not in ("-m", "--multirun"))])
    return [list(command) for command in dict.fromkeys(map(tuple, commands))]  # stand-ins may make two of them alike


def choice(words: Sequence[str], name: str) -> str | None:
    """What a command line says of a setting."""
    return next((word.partition("=")[2] for word in reversed(words) if _key(word) == name), None)


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~").partition("@")[0]
