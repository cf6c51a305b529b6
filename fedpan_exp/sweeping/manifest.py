"""Which runs a sweep covers, kept beside the run folders: runs are named by their settings and shared by sweeps."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from fedpan_exp.sweeping.grids import choice
from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.atomic_io import read_json, write_json
from fedpan_exp.system.errors import ConfigError, first_line
from fedpan_exp.tracking.runs import SWEEPS


def write(jobs: Sequence[Job], words: Sequence[str]) -> None:
    """runs/.sweeps/<sweep>-<scale>.json; what an earlier command added to the same sweep, more seeds say, stays."""
    experiment, name = jobs[0].experiment, choice(words, "sweeps")
    if not name:
        return  # a grid made up on the command line is nobody's exhibit
    runs = Path(experiment.runs)
    path = runs / SWEEPS / f"{name}-{experiment.scale}.json"
    earlier = [old for old in read_json(path).get("jobs", []) if (runs / old["run"]).is_dir()]
    now = [{"run": job.record.name, "overrides": job.overrides} for job in jobs]
    covered = {old["run"]: old for old in [*earlier, *now]}  # the same experiment once, as it was last asked for
    content = {
        "sweep": name,
        "scale": experiment.scale,
        "command": shlex.join(["python", "-m", "fedpan_exp", *words]),
        "swept": swept_settings([job["overrides"] for job in covered.values()]),
        "jobs": list(covered.values()),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, content)
    except OSError as error:
        raise ConfigError(f"runs must be a folder that can be written, got {runs} ({first_line(error)})") from None


def swept_settings(jobs: Sequence[Sequence[str]]) -> list[str]:
    """Settings that are not the same in all jobs."""
    named = [dict(word.split("=", 1) for word in words if "=" in word) for words in jobs]
    names = dict.fromkeys(name for settings in named for name in settings)
    return [name for name in names if len({settings.get(name) for settings in named}) > 1]
