"""Processes of torchrun that are stopped with SIGSTOP, in every phase of a run, and slow ones, which are not dead."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from processes import assert_same_outcome, child, ended, run_folder, torchrun, wait_for

from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.tracking.runs import RunEntry

TIMEOUT_S = 5
NOTICED_S = 15  # at most, after the timeout: heartbeats come once per second, later on a busy machine
SCENE = ("K=12", "R=0.5", "E=1", "H=12", "alpha=1")
SETTINGS = (
    *("dataset=digits", "model.width=256", "algorithm=scaffold", "checkpoint.every=1", f"fabric.timeout={TIMEOUT_S}"),
    *(f"fl_scene.{setting}" for setting in SCENE),
)
FAULTY_RUN = """
# The command, with a fault on one rank: it stops before the n-th call of a function, or sleeps before every call. Not
# after a restart.

import os
import signal
import time
from pathlib import Path

from torch import distributed

from fedpan_exp import cli
from fedpan_exp.federation.executors import executor
from fedpan_exp.federation.executors.parallel import ParallelExecutor
from fedpan_exp.training import LocalTrainer
from lightning import Fabric

OWNERS = {
    "train_client": executor,
    "evaluate": LocalTrainer,
    "backward": Fabric,
    "_command": ParallelExecutor,
    "_receive_command": ParallelExecutor,
}


def faulty(*args, **kwargs):
    global calls
    calls += 1
    if fault == "sleep":
        time.sleep(float(amount))
    elif calls == int(amount):
        Path("stopped").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    return original(*args, **kwargs)


fault, name, rank, amount = os.environ["FAULT"].split()
owner, calls = OWNERS.get(name, distributed), 0
if rank == os.environ["RANK"] and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    original = getattr(owner, name)
    setattr(owner, name, faulty)
cli.main()
"""


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> Path:
    """The folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("straight")
    assert ended(child(folder, *SETTINGS, "ranks=1")) == 0
    return folder


def start(
    monkeypatch, folder: Path, fault: str, *overrides: str, ranks: int = 2, restarts: int = 0
) -> subprocess.Popen[str]:
    monkeypatch.setenv("FAULT", fault)
    (folder / "faulty_run.py").write_text(FAULTY_RUN)
    return torchrun(folder, *SETTINGS, *overrides, ranks=ranks, restarts=restarts, program=("faulty_run.py",))


def stopped_process(folder: Path) -> int:
    wait_for(lambda: (folder / "stopped").exists() and (folder / "stopped").read_text())
    return int((folder / "stopped").read_text())


def output_after_death(launcher: subprocess.Popen[str], silent: int) -> str:
    """Torchrun sends SIGKILL to a stopped process half a minute after SIGTERM; this saves the time."""
    os.kill(silent, signal.SIGKILL)
    output = launcher.communicate(timeout=120)[0]
    assert launcher.returncode == 1
    return output


WORKER_STOPS = {
    "training": "train_client 1 4",
    "before the payload arrives": "broadcast 1 12",
    "before it receives states": "scatter_object_list 1 2",
    "before it reports": "all_gather_object 1 2",
    "in the sum": "all_reduce 1 4",
    "before it sends states": "send 1 5",
    "evaluation": "evaluate 1 3",
    "waiting for a command": "_receive_command 1 5",
}
RANK_0_STOPS = {
    "training": "train_client 0 4",
    "before the payload is sent": "broadcast 0 12",
    "before it sends states": "send 0 3",
    "in the sum": "all_reduce 0 4",
    "before it receives states": "recv 0 5",
    "evaluation": "evaluate 0 3",
    "while workers wait for a command": "_command 0 5",
}


def cases(stops: dict[str, str], *usual: str) -> list[ParameterSet]:
    """All phases as parameters; those that are not usual are left to `make test-exhaustive`."""
    return [
        pytest.param(fault, id=phase, marks=() if phase in usual else pytest.mark.exhaustive)
        for phase, fault in stops.items()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("fault", cases(WORKER_STOPS, "training", "in the sum", "waiting for a command"))
def test_a_worker_that_is_stopped_interrupts_the_run_after_the_timeout(monkeypatch, tmp_path, straight, fault):
    launcher = start(monkeypatch, tmp_path, f"stop {fault}")
    silent, stopped = stopped_process(tmp_path), time.monotonic()
    status = run_folder(tmp_path) / "status.json"
    wait_for(lambda: read_json(status)["status"] != "running", seconds=TIMEOUT_S + NOTICED_S)
    assert time.monotonic() - stopped > TIMEOUT_S - 1
    reason = f"rank 1 made no progress for {TIMEOUT_S} s"
    assert (read_json(status)["status"], read_json(status)["reason"]) == ("interrupted", reason)
    output = output_after_death(launcher, silent)
    assert len(re.findall(rf"fedpan_exp: {reason} after round \d+; run the same command to resume", output)) == 1
    assert output.count("fedpan_exp: ") == 1
    assert ended(child(tmp_path, *SETTINGS, "ranks=2")) == 0
    assert_same_outcome(straight, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("fault", cases(RANK_0_STOPS, "training", "in the sum"))
def test_workers_end_the_run_if_rank_0_is_stopped(monkeypatch, tmp_path, straight, fault):
    launcher = start(monkeypatch, tmp_path, f"stop {fault}", ranks=3)
    silent, stopped = stopped_process(tmp_path), time.monotonic()
    reason = f"rank 0 made no progress for {TIMEOUT_S} s"
    lines = iter(launcher.stdout.readline, "")
    assert next(line for line in lines if "rank 0" in line) == f"fedpan_exp: {reason}; run the same command to resume\n"
    assert TIMEOUT_S - 1 < time.monotonic() - stopped < TIMEOUT_S + NOTICED_S
    assert "fedpan_exp: rank" not in output_after_death(launcher, silent)
    assert RunEntry(run_folder(tmp_path)).status == "interrupted"
    assert ended(child(tmp_path, *SETTINGS, "ranks=2")) == 0
    assert_same_outcome(straight, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["stop all_reduce 2 6", pytest.param("stop all_reduce 0 6", marks=pytest.mark.exhaustive)]
)
def test_torchrun_restarts_a_run_whose_process_is_stopped_in_an_exchange(monkeypatch, tmp_path, straight, fault):
    launcher = start(monkeypatch, tmp_path, fault, ranks=3, restarts=1)
    output = launcher.communicate(timeout=180)[0]
    assert launcher.returncode == 0, output
    assert f"rank {fault.split()[2]} made no progress for {TIMEOUT_S} s" in output
    assert "resume    after round" in output
    assert_same_outcome(straight, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.exhaustive), 1])
@pytest.mark.parametrize("slow", ["backward {} 0.5", "evaluate {} 8"], ids=["training", "evaluation"])
def test_a_process_that_takes_longer_than_the_timeout_is_not_dead(monkeypatch, tmp_path, slow, rank):
    """In training every batch counts as progress: here a client takes about 10 s."""
    launcher = start(monkeypatch, tmp_path, f"sleep {slow.format(rank)}", "fl_scene.H=1", "fl_scene.B=8")
    output = launcher.communicate(timeout=180)[0]
    assert launcher.returncode == 0, output
    assert len(read_lines(run_folder(tmp_path) / "metrics.jsonl")) == 1
