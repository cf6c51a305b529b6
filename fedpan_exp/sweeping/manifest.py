"""The list of runs that a sweep covers. Run folders are named by their settings, and several sweeps can share a run."""

from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from fedpan_exp.sweeping.grids import swept_settings
from fedpan_exp.sweeping.jobs import Job
from fedpan_exp.system.atomic_io import read_json, write_json
from fedpan_exp.system.errors import ConfigError, first_line
from fedpan_exp.tracking.runs import SWEEPS, listed_jobs


def write(name: str, jobs: Sequence[Job], command: str) -> None:
    """Write runs/.sweeps/<sweep>-<scale>.json. Runs of earlier commands, such as other seeds, stay in the list."""
    experiment = jobs[0].experiment
    runs = Path(experiment.runs)
    path = runs / SWEEPS / f"{name}-{experiment.scale}.json"
    new = [{"run": job.name, "overrides": job.overrides} for job in jobs]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(runs / f"{SWEEPS}.lock"):  # another process may add the runs of other seeds
            earlier = [old for old in listed_jobs(read_json(path)) if (runs / old["run"]).is_dir()]
            covered = {job["run"]: job for job in [*earlier, *new]}  # one job per run, the latest
            content = {
                "sweep": name,
                "scale": experiment.scale,
                "command": command,
                "swept": swept_settings([job["overrides"] for job in covered.values()]),
                "jobs": list(covered.values()),
            }
            write_json(path, content)
    except OSError as error:
        raise ConfigError(f"runs must be a folder that can be written, got {runs} ({first_line(error)})") from None
