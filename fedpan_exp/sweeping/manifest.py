"""The list of runs that a sweep covers. Run folders are named by their settings, and several sweeps can share a run."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from fedpan_exp.sweeping.grids import choice
from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.atomic_io import read_json, write_json
from fedpan_exp.system.errors import ConfigError, first_line
from fedpan_exp.tracking.runs import SWEEPS


def write(jobs: Sequence[Job], args: Sequence[str]) -> None:
    """Write runs/.sweeps/<sweep>-<scale>.json. Runs of earlier commands, such as other seeds, stay in the list."""
    experiment, name = jobs[0].experiment, choice(args, "sweeps")
    if not name:
        return  # a grid of the command line has no name
    runs = Path(experiment.runs)
    path = runs / SWEEPS / f"{name}-{experiment.scale}.json"
    earlier = [old for old in read_json(path).get("jobs", []) if (runs / old["run"]).is_dir()]
    new = [{"run": job.record.name, "overrides": job.overrides} for job in jobs]
    covered = {old["run"]: old for old in [*earlier, *new]}  # one job per run, the latest
    content = {
        "sweep": name,
        "scale": experiment.scale,
        "command": shlex.join(["python", "-m", "fedpan_exp", *args]),
        "swept": swept_settings([job["overrides"] for job in covered.values()]),
        "jobs": list(covered.values()),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, content)
    except OSError as error:
        raise ConfigError(f"runs must be a folder that can be written, got {runs} ({first_line(error)})") from None


def swept_settings(jobs: Sequence[Sequence[str]]) -> list[str]:
    """Return the settings that differ between jobs."""
    named = [dict(arg.split("=", 1) for arg in overrides if "=" in arg) for overrides in jobs]
    names = dict.fromkeys(name for settings in named for name in settings)
    return [name for name in names if len({settings.get(name) for settings in named}) > 1]
