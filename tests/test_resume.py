"""Runs that are killed, interrupted or out of disk space resume and give the same numbers."""

import json
import os
import random
import re
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from processes import SMALL, child, ended, has_ended, outcome, run_folder, wait_for

from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.tracking.record import Record

ALGORITHMS = ("fedavg", "fedprox", "fedopt", "scaffold", "moon", "fednova", "feddyn", "fedrs", "fedphp")


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["memory", "disk"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_run_killed_at_random_moments_gives_the_same_result(tmp_path, algorithm, memory):
    """At least two kill -9 per case, 36 in all."""
    overrides = (
        *SMALL,
        "fl_scene.H=30",
        f"algorithm={algorithm}",
        f"fl_scene.client_memory={memory}",
        "checkpoint.every=2",
    )
    assert ended(child(tmp_path / "straight", *overrides)) == 0
    straight = run_folder(tmp_path / "straight")
    round_seconds = read_json(straight / "summary.json")["summary/time/round_s"] / 30

    rng, kills, output = random.Random(f"{algorithm} {memory}"), 0, tmp_path / "killed/output"
    while True:
        target = len(printed_rounds(output)) + rng.randint(1, 7)
        process = child(tmp_path / "killed", *overrides)
        if kills < 3:  # a run killed after its last round prints no more rounds
            wait_for(lambda target=target, process=process: len(printed_rounds(output)) >= target or has_ended(process))
            time.sleep(rng.uniform(0, 2) * round_seconds)  # at any point of a round
            os.kill(process, signal.SIGKILL)
        if ended(process) == 0:
            break
        kills += 1
    assert kills >= 2
    assert "ignoring the checkpoint" not in output.read_text()
    jumps = [(one, other) for one, other in pairwise(printed_rounds(output)) if other != one + 1]
    assert all(one - 1 <= other <= one + 2 for one, other in jumps), jumps  # at most two rounds were repeated
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "straight")
    assert read_json(run_folder(tmp_path / "killed") / "status.json")["status"] == "done"
    assert not (run_folder(tmp_path / "killed") / "checkpoint").exists()


def printed_rounds(output: Path) -> list[int]:
    """The round numbers of the progress lines, in the order printed."""
    text = output.read_text() if output.exists() else ""
    return [int(number) for number in re.findall(r"federate  round (\d+)/", text)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_within_a_batch_and_keeps_the_last_complete_round(tmp_path, straight, number):
    """A local epoch takes much longer than stopping."""
    overrides = (
        "dataset=digits",
        *(f"fl_scene.{s}" for s in ("K=2", "R=1", "H=2", "alpha=10", "B=4")),
        "checkpoint.every=0",
    )
    quick = (*overrides, "fl_scene.E=1", "training.warmup=none", "model.width=400")
    expected = straight(*quick)
    process = child(tmp_path / "stopped", *quick)
    wait_for(lambda: printed_rounds(tmp_path / "stopped/output"))
    signalled = time.monotonic()
    os.kill(process, number)
    assert ended(process) == 128 + number
    epoch = read_lines(run_folder(expected) / "metrics.jsonl")[0]["time/round_s"] / 2
    assert time.monotonic() - signalled < max(epoch, 30)
    folder = run_folder(tmp_path / "stopped")
    assert read_json(folder / "status.json")["status"] == "interrupted"
    (manifest,) = (folder / "checkpoint").glob("*.json")
    assert json.loads(manifest.read_text())["round"] == 1
    assert "interrupted after round 1; run the same command to resume: " in (tmp_path / "stopped/output").read_text()
    assert ended(child(tmp_path / "stopped", *quick)) == 0
    assert outcome(tmp_path / "stopped") == outcome(expected)


def test_a_signal_ends_the_whole_sweep(tmp_path):
    process = child(tmp_path, "-m", *SMALL, "seed=0,1,2", "fl_scene.H=300")
    wait_for(lambda: list(tmp_path.glob("runs/*/metrics.jsonl")))
    os.kill(process, signal.SIGINT)
    assert ended(process) == 128 + signal.SIGINT
    assert len(list(tmp_path.glob("runs/federate-*"))) == 1


def test_a_signal_at_the_end_of_a_job_lets_it_finish_and_ends_the_sweep(tmp_path):
    def signal_at_the_end() -> None:
        save = Record.save_weights

        def signal_then_save(self: Record, state: dict) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            save(self, state)

        Record.save_weights = signal_then_save

    process = child(tmp_path, "-m", *SMALL, "seed=0,1,2", prepare=signal_at_the_end)
    assert ended(process) == 128 + signal.SIGTERM
    assert read_json(run_folder(tmp_path) / "status.json")["status"] == "done"


def test_a_run_interrupted_between_checkpoints_loses_no_round(tmp_path):
    overrides = (*SMALL, "algorithm=scaffold", "checkpoint.every=0", "fl_scene.H=60")
    assert ended(child(tmp_path / "straight", *overrides)) == 0
    process = child(tmp_path / "stopped", *overrides)
    wait_for(lambda: list(tmp_path.glob("stopped/runs/*/metrics.jsonl")))
    os.kill(process, signal.SIGTERM)
    assert ended(process) == 128 + signal.SIGTERM
    records = len(read_lines(run_folder(tmp_path / "stopped") / "metrics.jsonl"))
    (manifest,) = (run_folder(tmp_path / "stopped") / "checkpoint").glob("*.json")
    assert json.loads(manifest.read_text())["round"] == records >= 1
    assert ended(child(tmp_path / "stopped", *overrides)) == 0
    assert f"resume    after round {records}, from its checkpoint" in (tmp_path / "stopped/output").read_text()
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "straight")


def limit_files(megabytes: float) -> None:
    size = int(megabytes * 1e6)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))  # writing fails in the system call, as on a full disk


def test_a_run_that_cannot_write_its_first_checkpoint_ends(tmp_path):
    """The weights (0.3 MB) do not fit, the records do: better to end now than to lose all rounds at the end."""
    overrides = (*SMALL, "model.width=256", "checkpoint.every=4")
    assert ended(child(tmp_path / "full", *overrides, prepare=lambda: limit_files(0.1))) == 1
    output = (tmp_path / "full/output").read_text()
    (line,) = [line for line in output.splitlines() if "cannot be written" in line]
    assert line.startswith("fedpan_exp: the checkpoint of round 4 cannot be written (")
    assert line.endswith("; the run has none yet; fix that, then run the same command to resume")
    assert "Traceback" not in output
    folder = run_folder(tmp_path / "full")
    assert read_json(folder / "status.json")["status"] == "failed"
    assert len(read_lines(folder / "metrics.jsonl")) == 4
    assert not list(folder.rglob("*.safetensors"))  # nothing half-written
    assert ended(child(tmp_path / "full", *overrides)) == 0
    assert ended(child(tmp_path / "straight", *overrides)) == 0
    assert outcome(tmp_path / "full") == outcome(tmp_path / "straight")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1.5 MB; needs the right to mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk is not permitted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def leave_room(disk: Path, size: int) -> Path:
    """Fill the disk up to `size` bytes, with a file that can be deleted."""
    filler, stat = disk / "filler", os.statvfs(disk)
    filler.write_bytes(bytes(stat.f_bavail * stat.f_frsize - size))
    return filler


@pytest.mark.slow
@pytest.mark.parametrize(
    ("room", "overrides", "rounds"),
    [
        (0, (), None),  # nothing can be written
        (9_000, (), None),  # not even the settings
        (100_000, (), 0),  # no checkpoint
        (100_000, ("fl_scene.client_memory=disk",), 0),  # not the client states
        (350_000, (), 1),  # one checkpoint, not two
        (350_000, ("logger=csv", "ranks=2"), 1),
        (350_000, ("fl_scene.client_memory=disk", "ranks=2"), 1),
        (40_000, ("checkpoint.every=0", "checkpoint.keep=[]", "fl_scene.H=200"), 0),  # no further record
    ],
    ids=str,
)
def test_a_run_on_a_full_disk_ends_in_one_line_and_resumes_when_there_is_room(
    tmp_path, small_disk, straight, room, overrides, rounds
):
    common = (*SMALL, "algorithm=scaffold", "checkpoint.every=3", "ranks=1", "logger=none")
    expected = straight(*common, *(each for each in overrides if each.startswith(("ranks", "fl_scene.H"))))
    overrides = (*common, *overrides)
    filler = leave_room(small_disk, room)
    folder = tmp_path / "run"
    process = child(folder, *overrides, f"runs={small_disk / 'runs'}")
    assert ended(process) == 1
    lines = (folder / "output").read_text().splitlines()
    (line,) = [line for line in lines if "fedpan_exp: " in line]
    assert re.search(r"cannot be written \(|must be a folder that can be written", line)
    assert "No space left on device" in line
    written = [file.read_text() for file in small_disk.glob("runs/*/metrics.jsonl")]
    records = [json.loads(line) for text in written for line in text.splitlines()]
    assert [record["round"] for record in records] == list(range(1, len(records) + 1))  # whole lines
    filler.unlink()
    assert ended(child(folder, *overrides, f"runs={small_disk / 'runs'}")) == 0
    output = (folder / "output").read_text()
    assert "ignoring the checkpoint" not in output
    if rounds is not None:
        assert ("resume    after round" in output) == bool(rounds)
    assert outcome(small_disk) == outcome(expected)


def test_a_full_disk_with_client_states_on_it(tmp_path):
    overrides = (*SMALL, "algorithm=scaffold", "fl_scene.client_memory=disk")
    assert ended(child(tmp_path, *overrides, prepare=lambda: limit_files(0.01))) == 1
    output = (tmp_path / "output").read_text()
    assert re.search(r"checkpoint/clients/\d+-[0-9a-f]+.safetensors cannot be written", output)
    assert "Traceback" not in output
    assert read_json(run_folder(tmp_path) / "status.json")["status"] == "failed"


def test_a_disk_too_full_for_the_status_leaves_no_files(tmp_path):
    assert ended(child(tmp_path, *SMALL, prepare=lambda: limit_files(0.0001))) == 1
    assert not list(tmp_path.glob("runs/*/*"))


def test_a_run_that_another_process_has_just_finished_is_not_repeated(tmp_path):
    """The second process checks the status before the first has finished, and locks the folder afterwards."""

    def delay_lock() -> None:
        lock = Record.lock

        def wait_then_lock(self: Record) -> None:
            wait_for(lambda: self.status == "done")
            lock(self)

        Record.lock = wait_then_lock

    second = child(tmp_path, *SMALL, prepare=delay_lock)
    assert ended(child(tmp_path, *SMALL)) == 0
    before = outcome(tmp_path)
    assert ended(second) == 1
    assert "has just been finished by another process" in (tmp_path / "output").read_text()
    assert outcome(tmp_path) == before


def test_the_second_of_two_processes_names_the_first(tmp_path):
    overrides = ("dataset=digits", *(f"fl_scene.{s}" for s in ("K=2", "R=1", "E=50", "H=50", "alpha=10")))
    first = child(tmp_path, *overrides)
    wait_for(lambda: list(tmp_path.glob("runs/*/status.json")))
    second = child(tmp_path, *overrides)
    assert ended(second) == 1
    output = (tmp_path / "output").read_text()
    assert f"is locked by process {first} on " in output
    assert read_json(run_folder(tmp_path) / "status.json")["process"] == first
    os.kill(first, signal.SIGTERM)
    assert ended(first) == 128 + signal.SIGTERM
