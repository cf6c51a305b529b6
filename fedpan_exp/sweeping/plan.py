"""plan=true: print what a command would run and what it would cost, without running it."""

from collections.abc import Sequence
from pathlib import Path

from fedpan_exp.data.inventory import inventory
from fedpan_exp.studies.federate.study import Federate
from fedpan_exp.sweeping.cost import estimate_costs
from fedpan_exp.sweeping.jobs import Job, distinct
from fedpan_exp.system.console import clock, counted, print_status
from fedpan_exp.tracking.lock import is_locked

STATES = ("done", "started", "locked", "to do")


def show(jobs: Sequence[Job]) -> None:
    runs = distinct(jobs)
    states = [_state(job) for job in runs]
    repeated = len(jobs) - len(runs)
    print_status(
        "jobs", f"{len(jobs)}, of which {repeated} repeat another job's experiment: {counted(len(runs), 'run')}"
    )
    print_status("runs", ", ".join(f"{states.count(state)} {state}" for state in STATES))
    left = [job for job, state in zip(runs, states, strict=True) if state in ("started", "to do")]
    _show_missing_datasets(left)
    costs = estimate_costs([job for job in left if isinstance(job.experiment.study, Federate)])
    if len(costs) < len(left):
        print_status("unknown", f"the cost of {len(left) - len(costs)} of these runs")
    if costs:
        seconds, disk, sent = map(sum, zip(*costs, strict=True))
        print_status("time", f"{clock(seconds)} in rounds, one run after another")
        print_status("disk", f"{disk / 1e6:,.1f} MB when all runs are done")
        print_status("sent", f"{sent / 1e9:,.1f} GB between clients and server, if they were on different machines")


def show_auto(jobs: Sequence[Job]) -> None:
    """Say that the plan that follows is that of one seed: how many there will be is not known."""
    settle = jobs[0].experiment.settle
    print_status("seeds", f"auto: at least 4, at most {settle.seeds}, within {settle.hours:g} hours; of one seed:")


def _state(job: Job) -> str:
    starts_over = job.experiment.rerun
    if job.is_finished and not starts_over:
        return "done"
    if job.record.status and is_locked(job.record.folder):
        return "locked"
    return "started" if job.record.status and not starts_over else "to do"


def _show_missing_datasets(jobs: Sequence[Job]) -> None:
    needed = [job.experiment.dataset for job in jobs if "dataset" not in job.experiment.study.irrelevant]
    for dataset in {(dataset.name, dataset.root): dataset for dataset in needed}.values():
        if not dataset.is_available:
            (item,) = inventory(Path(dataset.root).expanduser(), [dataset.name])
            print_status("missing", f"{dataset.name} in {dataset.root}: {item.get}")
