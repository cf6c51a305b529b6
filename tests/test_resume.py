"""Runs that cannot be lost: killed, interrupted, damaged, short of disk, and still the same numbers."""

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from processes import child, ended, has_ended, wait_for

from conftest import Outcome
from fedpan_exp.atomic import read_json, read_lines
from fedpan_exp.federation.checkpoint import _digest_of
from fedpan_exp.tracking.record import Record

SMALL = ("dataset=digits", "model.width=32", *(f"fl_scene.{s}" for s in ("K=12", "R=0.5", "E=1", "H=12")))
ALGORITHMS = ("fedavg", "fedprox", "fedopt", "scaffold", "moon")


def run_folder(folder: Path) -> Path:
    (found,) = (path for path in (folder / "runs").iterdir() if path.name[0] != ".")
    return found


def outcome(folder: Path) -> tuple[str, list[dict]]:
    """The final weights' hash, and all records without what a clock says."""
    found = run_folder(folder)
    records = read_lines(found / "metrics.jsonl")
    timeless = [{name: v for name, v in record.items() if not name.startswith("time/")} for record in records]
    return sha256((found / "weights.safetensors").read_bytes()).hexdigest(), timeless


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
    assert "passed over" not in output.read_text()
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
    assert [json.loads(path.read_text())["round"] for path in manifests(folder)] == [1]
    assert "interrupted; the same command goes on from there" in (tmp_path / "stopped/output").read_text()
    assert ended(child(tmp_path / "stopped", *quick)) == 0
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "straight")


def test_a_signal_ends_the_whole_sweep(tmp_path):
    process = child(tmp_path, "-m", *SMALL, "seed=0,1,2", "fl_scene.H=300")
    wait_for(lambda: rounds_said(tmp_path / "output"))
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


@pytest.fixture
def broken_off(command, monkeypatch) -> Callable[..., Path]:
    """A run that ended in the middle without a word, in this process; returns its folder."""

    def call(*words: str, after: int = 7) -> Path:
        write = Record.write

        def write_then_die(self: Record, turn: int, metrics: dict) -> None:
            write(self, turn, metrics)
            if turn == after:
                raise RuntimeError("the power went")

        with monkeypatch.context() as patched:
            patched.setattr(Record, "write", write_then_die)
            with pytest.raises(RuntimeError):
                command(*words)
        (folder,) = (path for path in Path("runs").iterdir() if path.name[0] != ".")
        return folder

    return call


WORDS = (*SMALL, "algorithm=scaffold", "checkpoint.every=2")


def finishes_alike(command: Callable[..., Outcome], folder: Path, *words: str) -> Outcome:
    again = command(*words)
    assert again.code == 0, again.err
    resumed = outcome(Path())
    assert [record["round"] for record in resumed[1]] == list(range(1, 13))
    fresh = command(*words, "rerun=true")
    assert fresh.code == 0
    assert outcome(Path()) == resumed
    return again


@pytest.mark.parametrize(
    "words",
    [
        ("algorithm=fedopt", "algorithm.server_optimizer=adam"),
        ("algorithm=fedopt", "algorithm.server_optimizer=yogi"),
        ("model=resnet20", "model.norm=bn", "model.width=4"),
        ("training.warmup=rounds", "eval_every=5", "fl_scene.local_test=0.2"),
    ],
    ids=" ".join,
)
def test_every_kind_of_state_is_restored(command, broken_off, words):
    words = (*SMALL, *words, "checkpoint.every=3")
    folder = broken_off(*words)
    assert "resume    after round 6" in finishes_alike(command, folder, *words).out


def manifests(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoint").glob("*.json"))


def test_two_checkpoints_are_kept(broken_off):
    folder = broken_off(*WORDS)
    assert [json.loads(path.read_text())["round"] for path in manifests(folder)] == [4, 6]
    named = {file for path in manifests(folder) for file in json.loads(path.read_text())["files"]}
    tensors = {str(path.relative_to(folder / "checkpoint")) for path in (folder / "checkpoint").rglob("*.safetensors")}
    assert tensors == named  # neither more nor less


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda newest: flip(newest), "it is damaged"),
        (lambda newest: flip(newest.with_suffix(".safetensors")), "0000006.safetensors is damaged"),
        (lambda newest: os.truncate(newest, 40), "it is damaged"),
        (lambda newest: os.truncate(newest.with_suffix(".safetensors"), 1000), "0000006.safetensors is damaged"),
        (lambda newest: newest.with_suffix(".safetensors").unlink(), "No such file"),
        (lambda newest: newest.write_text("[]"), "it is damaged"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over(command, broken_off, damage, reason):
    folder = broken_off(*WORDS)
    damage(manifests(folder)[-1])
    again = finishes_alike(command, folder, *WORDS)
    assert "resume    after round 4, from its checkpoint" in again.out
    assert f"0000006.json is passed over: {reason}" in again.err


def test_both_damaged_the_run_starts_over(command, broken_off):
    folder = broken_off(*WORDS)
    for path in manifests(folder):
        flip(path)
    assert "resume" not in finishes_alike(command, folder, *WORDS).out


def test_what_a_crash_left_half_written_is_not_taken_for_a_checkpoint(command, broken_off):
    folder = broken_off(*WORDS)
    newest = manifests(folder)[-1]
    (newest.parent / ".0000008.77.json").write_bytes(newest.read_bytes())  # its tensors were renamed, it was not
    again = finishes_alike(command, folder, *WORDS)
    assert "resume    after round 6, from its checkpoint" in again.out
    assert "passed over" not in again.err


def sign(path: Path, content: dict) -> None:
    """As a stranger could who has read our code."""
    content.pop("digest")
    path.write_text(json.dumps({**content, "digest": _digest_of(content)}))


def test_a_checkpoint_that_reaches_outside_its_folder(command, broken_off):
    folder = broken_off(*WORDS)
    precious = Path("precious.safetensors")
    precious.write_bytes((next((folder / "checkpoint/clients").iterdir())).read_bytes())
    newest = manifests(folder)[-1]
    content = json.loads(newest.read_text())
    name = f"../../../../{precious}"
    content["clients"]["0"] = name
    content["files"][f"clients/{name}"] = "0" * 32
    sign(newest, content)
    again = finishes_alike(command, folder, *WORDS)
    assert f"0000006.json is passed over: {name} is not a file of it" in again.err
    assert precious.exists()


def test_a_checkpoint_of_other_settings(command, broken_off):
    folder = broken_off(*WORDS)
    other = Path(f"{str(folder)[:-8]}00000000")
    for path in manifests(folder):
        content = json.loads(path.read_text())
        content["run"] = other.name
        sign(path, content)
    again = finishes_alike(command, folder, *WORDS)
    assert f"is passed over: it belongs to {other.name}" in again.err


def test_records_behind_the_checkpoint_are_cut_back(command, broken_off):
    folder = broken_off(*WORDS)
    records = folder / "metrics.jsonl"
    assert len(read_lines(records)) == 7
    with records.open("a") as file:
        file.write('{"round": 8, "train/lo')  # half a line, as a crash leaves it
    assert "resume    after round 6" in finishes_alike(command, folder, *WORDS).out


def test_records_that_are_missing(command, broken_off):
    folder = broken_off(*WORDS)
    records = folder / "metrics.jsonl"
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join(lines[:5]))
    again = finishes_alike(command, folder, *WORDS)
    assert "is passed over: records that belong to it are missing" in again.err
    assert "resume    after round 4" in again.out


@pytest.mark.parametrize("disk", ["memory", "disk"])
def test_broken_off_again_before_the_next_checkpoint(command, broken_off, disk):
    """The checkpoint it went on from still stands, and so does the one before."""
    words = (*WORDS, f"fl_scene.client_memory={disk}", "checkpoint.every=4")
    folder = broken_off(*words, after=9)
    for _ in range(2):
        broken_off(*words, after=10)
        assert [json.loads(path.read_text())["round"] for path in manifests(folder)] == [4, 8]
    again = finishes_alike(command, folder, *words)
    assert "passed over" not in again.err
    assert "resume    after round 8" in again.out


def test_damage_does_not_stand_in_the_way_of_new_checkpoints(command, broken_off):
    folder = broken_off(*WORDS, after=11)
    for path in manifests(folder):
        flip(path.with_suffix(".safetensors"))
    broken_off(*WORDS, after=9)  # from the start: rounds 2 to 8 are below the damaged 8 and 10
    assert [json.loads(path.read_text())["round"] for path in manifests(folder)] == [6, 8]
    again = finishes_alike(command, folder, *WORDS)
    assert "passed over" not in again.err
    assert "resume    after round 8" in again.out


@pytest.mark.parametrize("disk", ["memory", "disk"])
def test_a_rerun_starts_over(command, broken_off, disk):
    words = (*WORDS, f"fl_scene.client_memory={disk}")
    broken_off(*words)
    again = command(*words, "rerun=true")
    assert again.code == 0, again.err
    assert "resume" not in again.out


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
    assert "mend that, and the same command goes on" in said
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
        hold = Record.hold

        def hold_late(self: Record) -> None:
            wait_for(lambda: self.status == "done")
            hold(self)

        Record.hold = hold_late

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
    assert f"is being worked on by process {first} on " in said
    assert read_json(run_folder(tmp_path) / "status.json")["process"] == first
    os.kill(first, signal.SIGTERM)
    assert ended(first) == 128 + signal.SIGTERM


def test_a_diverging_run_says_where_and_is_not_taken_up_again(command):
    wild = (*SMALL, "training.lr=1", "training.weight_decay=9", "training.warmup=none", "fl_scene.H=60")
    assert command(*wild).code == 1
    again = command(*wild)
    assert again.code == 1
    assert "already diverged" in again.out


def test_divergence_is_the_spread_of_the_clients():
    from fedpan_exp.federation.round import Divergence

    ways = torch.randn(5, 1000)
    divergence = Divergence()
    for way in ways:
        divergence.add(way.clone())
    expected = (ways - ways.mean(0)).norm(dim=1).square().mean().sqrt()
    assert divergence.value() == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.slow
def test_the_ledger_tells_and_retries(tmp_path):
    """Done, diverged, killed: each by its name, the killed one finished by --retry."""
    ledger = [sys.executable, "-m", "fedpan_exp.ledger"]

    def ask(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run([*ledger, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert ended(child(tmp_path, *SMALL)) == 0
    wild = ("training.lr=1", "training.weight_decay=9", "training.warmup=none", "fl_scene.H=60")
    assert ended(child(tmp_path, *SMALL, *wild, "algorithm=fedprox")) == 1
    long = (*SMALL, "algorithm=scaffold", "fl_scene.H=400", "rerun=true")
    process = child(tmp_path, *long)
    wait_for(lambda: list(tmp_path.glob("runs/*scaffold*/metrics.jsonl")))
    assert "running\tfederate-digits-mlp-scaffold" in ask("algorithm=scaffold").stdout
    os.kill(process, signal.SIGKILL)
    ended(process)

    lines = dict(line.split("\t", 1) for line in ask().stdout.splitlines())
    assert lines.keys() == {"done", "diverged", "interrupted"}
    assert "12/12" in lines["done"]
    assert "diverged in round" in lines["diverged"]
    assert f"its process {process} on " in lines["interrupted"]
    (found,) = json.loads(ask("status=interrupted", "fl_scene.K=12", "--json").stdout)
    assert found["settings"]["algorithm"]["name"] == "scaffold"
    retry = ask("--retry").stdout
    assert retry.count("\n") == 1
    assert retry.startswith("python -m fedpan_exp hydra.mode=RUN dataset=digits")
    assert ask("status=interrupted", "fl_scene.K=12.0", "--retry", "run").returncode == 0
    assert not ask("status=interrupted").stdout
    assert ask("status=done", "algorithm=scaffold").stdout.startswith("done\t")
    assert ask("seed=[").returncode == 0
    assert ask("fl_scene.Q=1").stderr == "fedpan_exp: fl_scene.Q is not a setting of any run here\n"
    assert ask("nowhere").stderr == "fedpan_exp: there is no folder nowhere\n"
