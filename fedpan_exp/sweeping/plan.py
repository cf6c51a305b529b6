"""plan=true: print what a command would run and what it would cost. Runs only a client or two, to time them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedpan_exp.federation import count_ranks, federate, make_executor
from fedpan_exp.studies.federate.study import Federate
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.sweeping.jobs import Job, Jobs
from fedpan_exp.system.atomic_io import read_lines
from fedpan_exp.system.console import clock, console, print_status, progress_bar, quietly, warn
from fedpan_exp.system.errors import UserError
from fedpan_exp.tracking.lock import is_locked
from fedpan_exp.tracking.record import FINISHED
from fedpan_exp.tracking.runs import RunEntry, find_runs

ROUNDS = 2  # timed if no earlier run is known; the first warms up
PLOT_BYTES = 250_000  # per run


@dataclass
class Cost:
    sample: float  # seconds per training sample and epoch
    clients: int  # K, or the number of users if clients are users
    samples: float  # per client, on average
    sent: float  # bytes per client and round, up and down
    record: int  # bytes per round
    weights: int  # bytes per run


def show(jobs: Jobs) -> None:
    runs, total = jobs.distinct(), len(jobs.jobs)
    states = [_state(job) for job in runs]
    print_status("jobs", f"{total}, of which {total - len(runs)} repeat another job's experiment: {len(runs)} runs")
    print_status(
        "runs", ", ".join(f"{states.count(state)} {state}" for state in ("done", "started", "locked", "to do"))
    )
    left = [job for job, state in zip(runs, states, strict=True) if state in ("started", "to do")]
    federated = [job for job in left if isinstance(job.experiment.study, Federate)]
    costs = _costs(federated)
    known = [(job, cost) for job, cost in zip(federated, costs, strict=True) if cost]
    seconds = sent = disk = 0.0
    for job, cost in known:
        scene = job.experiment.fl_scene
        visits = (scene.H - RunEntry(job.record.folder).rounds) * scene.cohort_size(cost.clients)
        seconds += visits * scene.E * cost.samples * cost.sample
        sent += visits * cost.sent
        disk += scene.H * cost.record + cost.weights + PLOT_BYTES
    if len(known) < len(left):
        print_status("unknown", f"the cost of {len(left) - len(known)} of these runs")
    if known:
        print_status("time", f"{clock(seconds)} in rounds, one run after another")
        print_status("disk", f"{disk / 1e6:,.1f} MB when all runs are done")
        print_status("sent", f"{sent / 1e9:,.1f} GB between clients and server, if they were on different machines")


def _state(job: Job) -> str:
    if job.record.status in FINISHED and not job.experiment.rerun:
        return "done"
    if job.record.status and is_locked(job.record.folder):
        return "locked"
    return "started" if job.record.status else "to do"


def _costs(jobs: Sequence[Job]) -> list[Cost | None]:
    """Estimate each job from earlier runs of the same kind, else by timing two rounds now; None: no data."""
    known: dict[str, Cost | None] = {}
    folders = {Path(job.experiment.runs) for job in jobs}
    for entry in find_runs([folder for folder in folders if folder.is_dir()]):
        if entry.settings and (cost := _recorded(entry)):
            known.setdefault(_kind(entry.settings), cost)
    unknown = {_kind(job.record.settings): job for job in jobs if _kind(job.record.settings) not in known}
    if unknown:
        console.print(f"timing {ROUNDS} rounds of one client for each of {len(unknown)} kinds of work")
    with progress_bar("time", len(unknown)) as progress:
        for kind, job in unknown.items():
            try:
                cost = known[kind] = _timed(job)
                speed = f"{1 / cost.sample:,.0f} samples/s"
            except UserError as error:
                known[kind], speed = None, "unknown"
                warn(str(error))
            progress.advance()
            progress.describe(speed)
    return [known[_kind(job.record.settings)] for job in jobs]


def _kind(settings: dict[str, Any]) -> str:
    """Return the settings that decide the time per sample and the samples per client, as a key."""
    scene = {letter: settings["fl_scene"][letter] for letter in ("K", "B", "partition")}
    names = {group: settings[group]["name"] for group in ("dataset", "algorithm")}
    return json.dumps([names, settings["model"], scene, settings["fabric"]], sort_keys=True)


def _recorded(entry: RunEntry) -> Cost | None:
    path, weights = entry.folder / "metrics.jsonl", entry.folder / "weights.safetensors"
    if not path.exists() or not weights.exists():
        return None
    records = [record for record in read_lines(path) if "train/samples" in record]
    if len(records) < ROUNDS:
        return None
    last, settings = records[-1], entry.settings["fl_scene"]
    samples = sum(record["train/samples"] for record in records)
    clients = settings["K"] or _lines(entry.folder / "partition.csv") - 1
    visits = max(1, round(settings["R"] * clients))
    return Cost(
        sum(record["time/round_s"] for record in records) / samples,
        clients,
        samples / len(records) / visits / settings["E"],
        (last["comm/up_bytes"] + last["comm/down_bytes"]) / visits,
        path.stat().st_size // len(records),
        weights.stat().st_size,
    )


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n") if path.exists() else 1


def _timed(job: Job) -> Cost:
    """Time one client with one epoch per process, after a round that warms up."""
    experiment = job.experiment
    with quietly():
        setup = set_up(experiment)
    task, clients = make_task(experiment, setup), setup.clients
    ranks = count_ranks(experiment.ranks, task.cohort_size, setup.trainer.fabric.device)
    brief = replace(task, scene=replace(task.scene, R=ranks / len(clients), E=1, H=ROUNDS))
    *_, last = federate(brief, make_executor(brief, ranks))
    metrics = last.metrics()
    return Cost(
        last.seconds / metrics["train/samples"],
        len(clients),
        sum(map(len, clients.train)) / len(clients),
        (metrics["comm/up_bytes"] + metrics["comm/down_bytes"]) / ranks,
        len(json.dumps(metrics)),
        last.server.weights.nbytes,
    )
