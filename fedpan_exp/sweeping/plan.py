"""plan=true: print what a command would run and what it would cost, without running it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedpan_exp.data.inventory import inventory
from fedpan_exp.studies.federate.study import Federate
from fedpan_exp.sweeping.cost import Cost, estimate_costs
from fedpan_exp.sweeping.jobs import Job, distinct
from fedpan_exp.system.console import clock, console, counted, plain_table, print_status
from fedpan_exp.tracking.lock import is_locked

STATES = ("done", "started", "locked", "to do")
KINDS = ("study", "dataset", "network", "rounds", "runs", "time")


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
    federated = [job for job in left if isinstance(job.experiment.study, Federate)]
    estimates = zip(federated, estimate_costs(federated), strict=True)
    costs = {job: cost for job, cost in estimates if cost is not None}
    if len(costs) < len(left):
        print_status("unknown", f"the cost of {len(left) - len(costs)} of these runs")
    if costs:
        seconds, disk, sent = map(sum, zip(*costs.values(), strict=True))
        print_status("time", f"about {clock(seconds)} in rounds, one run after another")
        print_status("disk", f"{disk / 1e6:,.1f} MB when all runs are done")
        print_status("sent", f"{sent / 1e9:,.1f} GB between clients and server, if they were on different machines")
    if left:
        _show_kinds(left, costs)


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


def _show_kinds(jobs: Sequence[Job], costs: Mapping[Job, Cost]) -> None:
    """A row for the runs of one study, dataset, network and length."""
    kinds: dict[tuple[str, ...], list[Job]] = {}
    for job in jobs:
        kinds.setdefault(_kind(job), []).append(job)
    rows = []
    for kind, same in kinds.items():
        seconds = [costs[job].seconds for job in same if job in costs]
        rows.append((*kind, str(len(same)), clock(sum(seconds)) if seconds else "–"))
    console.print()
    console.print(plain_table(KINDS, rows, numbers=KINDS[-3:]))


def _kind(job: Job) -> tuple[str, ...]:
    experiment, irrelevant = job.experiment, job.experiment.study.irrelevant
    network = job.record.settings["model"]
    factor = network.get("width_factor", 1.0)
    return (
        experiment.study.name,
        "–" if "dataset" in irrelevant else experiment.dataset.name,
        "–" if "model" in irrelevant else network["name"] + (f" x {factor:g}" if factor != 1 else ""),
        "–" if "fl_scene" in irrelevant else str(experiment.fl_scene.H),
    )


def _show_missing_datasets(jobs: Sequence[Job]) -> None:
    needed = [job.experiment.dataset for job in jobs if "dataset" not in job.experiment.study.irrelevant]
    for dataset in {(dataset.name, dataset.root): dataset for dataset in needed}.values():
        if not dataset.is_available:
            (item,) = inventory(Path(dataset.root).expanduser(), [dataset.name])
            print_status("missing", f"{dataset.name} in {dataset.root}: {item.get}")
