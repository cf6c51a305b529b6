"""plan=true: what a command would do, and what it would cost; nothing is run but two rounds to time them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from fedpan_exp.atomic import read_lines
from fedpan_exp.console import clock, console, job, say
from fedpan_exp.federation import count_ranks, federate
from fedpan_exp.studies.setup import make_world
from fedpan_exp.sweep import Job, distinct
from fedpan_exp.tracking.ledger import Entry, entries
from fedpan_exp.tracking.lock import is_held
from fedpan_exp.tracking.record import FINISHED

ROUNDS = 2  # timed where no earlier run tells; the first warms up
PICTURES = 250_000  # bytes a run


@dataclass
class Cost:
    """Of a round."""

    seconds: float
    sent: float  # bytes, both ways
    record: int  # bytes
    weights: int = 0  # bytes, of the whole run


def show(jobs: Sequence[Job]) -> None:
    runs = {name: shared[0] for name, shared in distinct(jobs).items()}
    states = {name: _state(job) for name, job in runs.items()}
    counts = {state: sum(found == state for found in states.values()) for state in ("done", "begun", "held", "to do")}
    say("jobs", f"{len(jobs)}, of which {len(jobs) - len(runs)} are the same experiment as another: {len(runs)} runs")
    say("runs", ", ".join(f"{count} {state}" for state, count in counts.items()))
    left = [runs[name] for name, state in states.items() if state in ("begun", "to do")]
    federated = [job for job in left if job.experiment.study.name == "federate"]
    if len(federated) < len(left):
        say("unknown", f"what {len(left) - len(federated)} runs of other studies take")
    if not federated:
        return
    costs = _costs(federated)
    seconds = sent = disk = 0.0
    for one, cost in zip(federated, costs, strict=True):
        rounds = one.experiment.fl_scene.H - Entry(one.record.folder).rounds
        seconds, sent = seconds + rounds * cost.seconds, sent + rounds * cost.sent
        disk += one.experiment.fl_scene.H * cost.record + cost.weights + PICTURES
    say("time", f"{clock(seconds)} in rounds, one run after another")
    say("disk", f"{disk / 1e6:,.1f} MB when all is done")
    say("sent", f"{sent / 1e9:,.1f} GB between clients and server, were they apart")


def _state(job: Job) -> str:
    if job.record.status in FINISHED:
        return "done"
    if job.record.status and is_held(job.record.folder):
        return "held"
    return "begun" if job.record.status else "to do"


def _costs(jobs: Sequence[Job]) -> list[Cost]:
    """Of each job: from earlier records of as much work, else from rounds timed now, once for each kind."""
    known: dict[str, Cost] = {}
    for entry in entries([Path(jobs[0].experiment.runs)]) if Path(jobs[0].experiment.runs).is_dir() else []:
        is_federated = bool(entry.settings) and entry.settings["study"]["name"] == "federate"
        cost = _recorded(entry) if is_federated else None
        if cost:
            known.setdefault(_work(entry.settings), cost)
    unknown = {_work(one.record.settings): one for one in jobs if _work(one.record.settings) not in known}
    if unknown:
        console.print(f"timing {ROUNDS} rounds of each of {len(unknown)} kinds of work")
    with job("time", len(unknown)) as progress:
        for kind, one in unknown.items():
            known[kind] = _timed(one)
            progress.advance()
            progress.note(f"{known[kind].seconds:.2f} s a round")
    return [known[_work(one.record.settings)] for one in jobs]


def _work(settings: dict[str, Any]) -> str:
    """What decides on how long a round takes."""
    scene = {letter: settings["fl_scene"][letter] for letter in ("K", "R", "E", "B", "partition")}
    names = {group: settings[group]["name"] for group in ("dataset", "algorithm")}
    return json.dumps([names, settings["model"], scene, settings["fabric"]], sort_keys=True)


def _recorded(entry: Entry) -> Cost | None:
    try:
        records = read_lines(entry.folder / "metrics.jsonl")
    except OSError:
        return None
    weights = entry.folder / "weights.safetensors"
    if len(records) < ROUNDS or not weights.exists():
        return None
    size = (entry.folder / "metrics.jsonl").stat().st_size // len(records)
    seconds = sum(record["time/round_s"] for record in records[1:]) / (len(records) - 1)
    return Cost(seconds, _sent(records[-1]), size, weights.stat().st_size)


def _timed(one: Job) -> Cost:
    experiment = one.experiment
    world = make_world(experiment)
    algorithm, trainer, clients, scene = experiment.algorithm, world.trainer, world.clients, experiment.fl_scene
    ranks = count_ranks(experiment.ranks, scene.invited(len(clients)), trainer.fabric.device)
    rounds = federate(algorithm, trainer, clients, scene, experiment.seed, ranks=ranks)
    *_, last = islice(rounds, ROUNDS)
    metrics = last.metrics()
    return Cost(last.seconds, _sent(metrics), len(json.dumps(metrics)), last.server.weights.nbytes)


def _sent(metrics: dict[str, Any]) -> float:
    return metrics["comm/up_bytes"] + metrics["comm/down_bytes"]
