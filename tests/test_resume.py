"""Runs that cannot be lost: killed, interrupted, short of disk, and still the same numbers."""

import json
import os
import random
import re
import resource
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest
from processes import SMALL, child, ended, has_ended, outcome, run_folder, wait_for

from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.tracking.record import Record

ALGORITHMS = ("fedavg", "fedprox", "fedopt", "scaffold", "moon")


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["memory", "disk"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_killed_at_random_moments_a_run_ends_as_if_it_had_not_been(tmp_path, algorithm, memory):
    """kill -9, again and again: at least two kills each, so twenty in all."""
    words = (
        *SMALL,
        "fl_scene.H=30",
        f"algorithm={algorithm}",
        f"fl_scene.client_memory={memory}",
        "checkpoint.every=2",
    )
    assert ended(child(tmp_path / "straight", *words)) == 0
    straight = run_folder(tmp_path / "straight")
    a_round = read_json(straight / "summary.json")["summary/time/round_s"] / 30

    rng, kills, output = random.Random(f"{algorithm} {memory}"), 0, tmp_path / "killed/output"
    while True:
        enough = len(rounds_said(output)) + rng.randint(1, 7)
        process = child(tmp_path / "killed", *words)
        if kills < 3:  # one that was killed behind its last round has none left to say
            wait_for(lambda enough=enough, process=process: len(rounds_said(output)) >= enough or has_ended(process))
            time.sleep(rng.uniform(0, 2) * a_round)  # anywhere between two rounds
            os.kill(process, signal.SIGKILL)
        if ended(process) == 0:
            break
        kills += 1
    assert kills >= 2
    assert "ignoring the checkpoint" not in output.read_text()
    jumps = [(one, other) for one, other in pairwise(rounds_said(output)) if other != one + 1]
    assert all(one - 1 <= other <= one + 2 for one, other in jumps), jumps  # at most the work of two rounds was lost
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "straight")
    assert read_json(run_folder(tmp_path / "killed") / "status.json")["status"] == "done"
    assert not (run_folder(tmp_path / "killed") / "checkpoint").exists()


def rounds_said(output: Path) -> list[int]:
    """The rounds of the progress lines, in the order they were said."""
    text = output.read_text() if output.exists() else ""
    return [int(number) for number in re.findall(r"federate  round (\d+)/", text)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_within_a_batch_and_keeps_the_last_whole_round(tmp_path, number):
    """The second round would take minutes: a local epoch takes far longer than the end does."""
    words = (
        "dataset=digits",
        *(f"fl_scene.{s}" for s in ("K=2", "R=1", "H=2", "alpha=10", "B=4")),
        "checkpoint.every=0",
    )
    quick = (*words, "fl_scene.E=1", "training.warmup=none", "model.width=400")
    assert ended(child(tmp_path / "straight", *quick)) == 0
    process = child(tmp_path / "stopped", *quick)
    wait_for(lambda: rounds_said(tmp_path / "stopped/output"))
    began = time.monotonic()
    os.kill(process, number)
    assert ended(process) == 128 + number
    epoch = read_lines(run_folder(tmp_path / "straight") / "metrics.jsonl")[0]["time/round_s"] / 2
    assert time.monotonic() - began < max(epoch, 30)
    folder = run_folder(tmp_path / "stopped")
    assert read_json(folder / "status.json")["status"] == "interrupted"
    (manifest,) = (folder / "checkpoint").glob("*.json")
    assert json.loads(manifest.read_text())["round"] == 1
    assert "interrupted after round 1; run the same command to resume: " in (tmp_path / "stopped/output").read_text()
    assert ended(child(tmp_path / "stopped", *quick)) == 0
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "straight")


def test_a_signal_ends_the_whole_sweep(tmp_path):
    process = child(tmp_path, "-m", *SMALL, "seed=0,1,2", "fl_scene.H=300")
    wait_for(lambda: list(tmp_path.glob("runs/*/metrics.jsonl")))
    os.kill(process, signal.SIGINT)
    assert ended(process) == 128 + signal.SIGINT
    assert len(list(tmp_path.glob("runs/federate-*"))) == 1


def test_a_signal_while_a_job_ends_lets_it_end_and_then_the_sweep(tmp_path):
    def signal_at_the_end() -> None:
        save = Record.save_weights

        def ask_then_save(self: Record, state: dict) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            save(self, state)

        Record.save_weights = ask_then_save

    process = child(tmp_path, "-m", *SMALL, "seed=0,1,2", prepare=signal_at_the_end)
    assert ended(process) == 128 + signal.SIGTERM
    assert read_json(run_folder(tmp_path) / "status.json")["status"] == "done"


def test_interrupted_between_checkpoints_nothing_is_lost(tmp_path):
    words = (*SMALL, "algorithm=scaffold", "checkpoint.every=0", "fl_scene.H=60")
    assert ended(child(tmp_path / "straight", *words)) == 0
    process = child(tmp_path / "stopped", *words)
    wait_for(lambda: list(tmp_path.glob("stopped/runs/*/metrics.jsonl")))
    os.kill(process, signal.SIGTERM)
    assert ended(process) == 128 + signal.SIGTERM
    records = len(read_lines(run_folder(tmp_path / "stopped") / "metrics.jsonl"))
    (manifest,) = (run_folder(tmp_path / "stopped") / "checkpoint").glob("*.json")
    assert json.loads(manifest.read_text())["round"] == records >= 1
    assert ended(child(tmp_path / "stopped", *words)) == 0
    assert f"resume    after round {records}, from its checkpoint" in (tmp_path / "stopped/output").read_text()
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "straight")


def limit_files(megabytes: float) -> None:
    size = int(megabytes * 1e6)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))  # the system's own refusal, as on a full disk


def test_a_full_disk_costs_a_checkpoint_and_not_the_run(tmp_path):
    """Weights of 0.3 MB do not fit, records do: the run goes on to where it must write weights, and says so."""
    words = (*SMALL, "model.width=256", "checkpoint.every=4")
    assert ended(child(tmp_path / "full", *words, prepare=lambda: limit_files(0.1))) == 1
    said = (tmp_path / "full/output").read_text()
    assert "the checkpoint of round 4 could not be written" in said
    assert "there is none yet" in said
    assert "round 12/12" in said
    assert "weights.safetensors cannot be written" in said
    assert "fix that, then run the same command to resume" in said
    assert said.count("could not be written") == 3  # a warning a checkpoint, not one a round
    assert "Traceback" not in said
    folder = run_folder(tmp_path / "full")
    assert read_json(folder / "status.json")["status"] == "failed"
    assert not list(folder.rglob(".*.safetensors"))  # nothing half-written
    assert ended(child(tmp_path / "full", *words)) == 0
    assert ended(child(tmp_path / "straight", *words)) == 0
    assert outcome(tmp_path / "full") == outcome(tmp_path / "straight")


def test_a_full_disk_and_memories_on_it(tmp_path):
    words = (*SMALL, "algorithm=scaffold", "fl_scene.client_memory=disk")
    assert ended(child(tmp_path, *words, prepare=lambda: limit_files(0.01))) == 1
    said = (tmp_path / "output").read_text()
    assert re.search(r"checkpoint/clients/\d+-[0-9a-f]+.safetensors cannot be written", said)
    assert "Traceback" not in said
    assert read_json(run_folder(tmp_path) / "status.json")["status"] == "failed"


def test_no_place_even_for_the_status(tmp_path):
    assert ended(child(tmp_path, *SMALL, prepare=lambda: limit_files(0.0001))) == 1
    assert not list(tmp_path.glob("runs/*/*"))


def test_a_run_finished_by_another_meanwhile_is_left_alone(tmp_path):
    """The second process looked before the first had finished, and comes to the folder after it has."""

    def be_late() -> None:
        lock = Record.lock

        def lock_late(self: Record) -> None:
            wait_for(lambda: self.status == "done")
            lock(self)

        Record.lock = lock_late

    second = child(tmp_path, *SMALL, prepare=be_late)
    assert ended(child(tmp_path, *SMALL)) == 0
    before = outcome(tmp_path)
    assert ended(second) == 1
    assert "has just been finished by another process" in (tmp_path / "output").read_text()
    assert outcome(tmp_path) == before


def test_of_two_processes_one_works_and_the_other_says_who(tmp_path):
    words = ("dataset=digits", *(f"fl_scene.{s}" for s in ("K=2", "R=1", "E=50", "H=50", "alpha=10")))
    first = child(tmp_path, *words)
    wait_for(lambda: list(tmp_path.glob("runs/*/status.json")))
    second = child(tmp_path, *words)
    assert ended(second) == 1
    said = (tmp_path / "output").read_text()
    assert f"is locked by process {first} on " in said
    assert read_json(run_folder(tmp_path) / "status.json")["process"] == first
    os.kill(first, signal.SIGTERM)
    assert ended(first) == 128 + signal.SIGTERM
