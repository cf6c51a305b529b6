"""Clients over several processes: the same numbers on any number of ranks, also if some of them die or hang."""

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch
from processes import assert_same_outcome, child, ended, has_ended, run_folder, torchrun, wait_for, workers_of

from conftest import clients_of, experiment, make_algorithm, random_images, run_rounds, trainer_of
from fedpan_exp.algorithms import ALGORITHMS, ClientContext, CohortUpdate, FedAvg, ServerState
from fedpan_exp.data import ImageTensors
from fedpan_exp.federation import (
    ClientStates,
    FederatedTask,
    Round,
    Scene,
    WorkerDied,
    count_ranks,
    federate,
    make_executor,
)
from fedpan_exp.federation.client import train_client
from fedpan_exp.federation.executors import executor
from fedpan_exp.federation.executors.balance import balance
from fedpan_exp.models import Pan
from fedpan_exp.models.resnet import ResNet
from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.system.errors import ConfigError, Diverged
from fedpan_exp.training import EvalResult, FlatNet, LocalTrainer, Training

SMALL = ("dataset=digits", "model.width=32", *(f"fl_scene.{s}" for s in ("K=12", "R=0.5", "E=1", "H=8", "alpha=1")))
LONG = (*SMALL, "fl_scene.H=400", "fl_scene.E=2", "checkpoint.every=3", "algorithm=scaffold")
CPU = torch.device("cpu")


def test_the_largest_clients_go_first_to_the_rank_with_the_fewest_samples():
    """9 -> 0, 7 -> 1, 6 -> 1 (7 < 9), 5 -> 0 (9 < 13), 2 -> 1 (13 < 14): loads 14 and 15."""
    assert balance([5, 9, 2, 7, 6], 2) == [[0, 1], [2, 3, 4]]
    assert balance([4, 4, 4], 3) == [[0], [1], [2]]
    assert balance([3, 1], 1) == [[0, 1]]


def test_auto_uses_at_most_torchs_threads_and_one_rank_per_client(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert count_ranks("auto", 10, CPU) == 4
    assert count_ranks("auto", 3, CPU) == 3
    assert count_ranks("6", 10, CPU) == 6
    assert count_ranks("auto", 10, torch.device("cuda")) == 1
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # as in parallel jobs of a sweep
    assert count_ranks("auto", 10, CPU) == 1
    with pytest.raises(ConfigError, match="ranks must be auto or 1 here; `torchrun --nproc-per-node=2"):
        count_ranks("2", 10, torch.device("cuda"))
    for wrong in ("0", "-1", "many", "1.5"):
        with pytest.raises(ConfigError, match=f"ranks must be auto or a number from 1, got {wrong}"):
            experiment(f"ranks={wrong}")


def rounds(
    ranks: int, algorithm: FedAvg, states: ClientStates | None = None, H: int = 5, timeout: float = 600, **scene
) -> Iterator[Round]:
    """Rounds with BatchNorm, clients of different sizes, and held-out samples."""
    trainer = trainer_of(ResNet(1, 4, 1, 3, "bn", Pan("mul", A=0.2)), Training(lr=0.02, warmup="none"))
    clients = clients_of(random_images(96, shape=(1, 8, 8)), [20, 6, 12, 8, 30, 20], local_test=0.2)
    setting = Scene(K=6, R=0.67, E=1, H=H, B=8, local_test=0.2, averaging="by_samples", **scene)
    test = random_images(31, shape=(1, 8, 8), seed=1)
    return run_rounds(algorithm, trainer, clients, setting, ranks, states, timeout, test=test)


def run_all(*args, **kwargs) -> tuple[list[dict[str, float]], ServerState]:
    """The metrics of all rounds without times, and the final server."""
    records = []
    for round_ in rounds(*args, **kwargs):
        metrics = {name: value for name, value in round_.metrics().items() if not name.startswith("time/")}
        result = round_.test()
        steps = [fit.steps for fit in round_.update.stats.fits]
        records.append(
            {**metrics, "acc": result.accuracy, "loss": result.loss, "clients": round_.cohort, "steps": steps}
        )
    return records, round_.server


# The fast ones: nothing besides the weights, local models, personal models, states of server and clients.
FAST = ("fedavg", "feddf", "fedphp", "scaffold")
EVERY_ALGORITHM = [
    pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
    for name in sorted(ALGORITHMS.keys() - {"fedma"})  # it has its own test, on a network it accepts
]


@pytest.mark.parametrize("name", EVERY_ALGORITHM)
def test_one_two_and_three_ranks_give_the_same_numbers(name):
    expected, server = run_all(1, make_algorithm(name))
    for ranks in (2, 3):
        records, parallel = run_all(ranks, make_algorithm(name))
        assert_equal(server, parallel)
        for one, other in zip(expected, records, strict=True):
            exact = ("clients", "steps", "acc", "train/samples", "comm/up_bytes", "comm/down_bytes")
            assert [other[key] for key in exact] == [one[key] for key in exact]
            for key in one.keys() - set(exact):
                assert other[key] == pytest.approx(one[key], rel=1e-4), key


def assert_equal(one: ServerState, other: ServerState) -> None:
    """Equal to the last bit, with what the algorithm keeps on the server."""
    assert torch.equal(other.weights, one.weights)
    assert torch.equal(other.buffers, one.buffers)
    assert other.state.keys() == one.state.keys()
    for name, vector in one.state.items():
        assert vector is None or torch.equal(other.state[name], vector)


@pytest.mark.parametrize("on_disk", [False, True])
def test_rank_0_receives_the_states_of_all_clients(tmp_path, on_disk):
    controls = []
    for ranks in (1, 3):
        states = ClientStates(tmp_path / f"{ranks}", on_disk)
        run_all(ranks, ALGORITHMS["scaffold"](), states)
        controls.append({k: states[k]["control"] for k in states.clients()})
        assert len(list((tmp_path / f"{ranks}").glob("*"))) == (len(states.clients()) if on_disk else 0)
    serial, parallel = controls
    assert serial.keys() == parallel.keys()
    for k in serial:
        assert torch.equal(parallel[k], serial[k])


def test_workers_train_clients_and_end_with_the_loop():
    class Spy(FedAvg):
        def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, torch.Tensor]:
            return {"process": torch.full((2,), float(os.getpid()))}

        def aggregate(self, server: ServerState, update: CohortUpdate) -> None:
            assert os.getpid() == rank_0  # workers only train
            server.state["mean process"] = update.extras["process"].mean()

    rank_0, before = os.getpid(), children()
    (first,) = islice(rounds(2, Spy()), 1)
    assert first.server.state["mean process"].item() != os.getpid()  # the worker trained, too
    assert children() == before  # and has ended
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("threads", [None, "2"])
def test_the_number_of_threads_is_restored_when_the_ranks_have_ended(monkeypatch, threads):
    """Lightning sets OMP_NUM_THREADS if it is not set, and does not restore it."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
    for _ in rounds(2, FedAvg(), H=1):
        assert torch.get_num_threads() == 1
    assert os.environ.get("OMP_NUM_THREADS") == threads


def children() -> set[str]:
    """Child processes that have not been waited for."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_a_fork_after_the_ranks_have_ended_does_not_wait_for_their_threads():
    run_all(2, FedAvg())
    for _ in range(3):
        process = os.fork()
        if not process:
            gc.collect()
            os._exit(0)
        wait_for(lambda process=process: has_ended(process))
        assert ended(process) == 0
    run_all(2, FedAvg())


def test_every_job_of_a_sweep_has_its_own_workers(command):
    result = command("-m", *SMALL, "fl_scene.H=2", "seed=0,1,2", "ranks=2")
    assert result.code == 0, result.err
    assert "sweep  3 done, in runs" in result.out


@pytest.mark.parametrize("healthy", [0, 1, 2, 3])
def test_clients_that_diverge_on_any_rank_end_the_run_with_the_same_message(healthy):
    class Poisoned(FedAvg):
        """Only the first clients of the cohort do not diverge."""

        def init_client(self, net: FlatNet, client: ClientContext) -> None:
            if client.samples not in healthy_samples:
                net.weights.fill_(float("nan"))

    sizes = [16, 5, 10, 7, 24, 16]
    (first,) = islice(rounds(1, FedAvg()), 1)
    healthy_samples = [sizes[k] for k in first.cohort[:healthy]]
    messages = []
    for ranks in (1, 3):
        with pytest.raises(Diverged, match=r"diverged in round 1 at client \d: the local loss is nan") as diverged:
            list(rounds(ranks, Poisoned()))
        messages.append(str(diverged.value))
    assert messages[0] == messages[1]


def test_a_bug_on_a_worker_is_reported_with_its_traceback():
    class Buggy(FedAvg):
        def init_client(self, net: FlatNet, client: ClientContext) -> None:
            if os.getpid() != rank_0:
                raise ZeroDivisionError("in a worker")

    rank_0 = os.getpid()
    with pytest.raises(RuntimeError, match=r"(?s)on rank 1:.*in init_client.*ZeroDivisionError: in a worker"):
        list(rounds(2, Buggy()))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_used_before_the_fork_do_not_hang_the_workers(tmp_path, threads):
    """OpenMP's threads do not survive a fork; here they exist when the workers are forked."""

    def use_threads() -> None:
        torch.set_num_threads(threads)
        x = torch.randn(600, 600)
        (x @ x).relu().sum()

    process = child(tmp_path, *SMALL, "ranks=3", "fl_scene.H=2", prepare=use_threads)
    wait_for(lambda: list(tmp_path.glob("runs/*/weights.safetensors")))
    assert ended(process) == 0


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_number_of_openmp_threads_hangs_a_run(tmp_path, threads):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "fedpan_exp", *SMALL, "ranks=3", "fl_scene.H=2"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, timeout=180, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert "3 processes with one thread each" in result.stdout


def has_two_rounds(folder: Path) -> bool:
    return any(len(read_lines(file)) >= 2 for file in folder.glob("runs/*/metrics.jsonl"))


def fail_in_workers(monkeypatch, folder: Path, number: signal.Signals, times: int, clients: int = 0) -> None:
    """Workers get a signal after their first clients have been trained, `times` in all."""

    def train_then_fail(*args, **kwargs):
        trained = train_client(*args, **kwargs)
        finished = folder / f"{os.getpid()}"
        if os.getpid() != rank_0:
            done = int(finished.read_text()) if finished.exists() else 0
            finished.write_text(str(done + 1))
            if done == clients and len(list(folder.glob("*.failed"))) < times:
                (folder / f"{os.getpid()}.failed").touch()
                os.kill(os.getpid(), number)
        return trained

    rank_0 = os.getpid()
    monkeypatch.setattr(executor, "train_client", train_then_fail)


@pytest.mark.parametrize("name", EVERY_ALGORITHM)
def test_a_worker_that_is_killed_is_replaced_and_the_round_repeated_to_the_same_bits(
    monkeypatch, tmp_path, capfd, name
):
    on_disk = name in ("moon", "feddyn")
    expected, straight = run_all(2, make_algorithm(name), ClientStates(tmp_path / "straight", on_disk))
    fail_in_workers(monkeypatch, tmp_path, signal.SIGKILL, times=2, clients=1)
    states = ClientStates(tmp_path / "killed", on_disk)
    before = children()
    records, killed = run_all(2, make_algorithm(name), states)
    assert len(list(tmp_path.glob("*.failed"))) == 2
    assert records == expected
    assert_equal(straight, killed)
    assert children() == before
    line = "ranks     rank 1 was killed by SIGKILL; it is replaced, and what was under way starts again"
    assert capfd.readouterr().out.count(line) == 2


def test_progress_counts_repeated_clients_once(monkeypatch, tmp_path):
    done = []
    fail_in_workers(monkeypatch, tmp_path, signal.SIGKILL, times=1)
    trainer = trainer_of(ResNet(1, 4, 1, 3, "bn", Pan("off")), Training(lr=0.02, warmup="none"))
    clients = clients_of(random_images(40, shape=(1, 8, 8)), [10, 10, 10, 10])
    task = FederatedTask(FedAvg(), trainer, clients, Scene(K=4, R=1, E=1, H=3, B=8), seed=0)
    list(federate(task, make_executor(task, 2, on_clients_done=done.append)))
    assert list(tmp_path.glob("*.failed"))
    assert sum(done) == 3 * 4


def test_after_three_deaths_in_one_round_the_run_ends(monkeypatch, tmp_path):
    fail_in_workers(monkeypatch, tmp_path, signal.SIGKILL, times=3)
    states = ClientStates()
    with pytest.raises(WorkerDied, match=r"rank 1 was killed by SIGKILL \(the third worker in a row\)"):
        list(rounds(2, ALGORITHMS["scaffold"](), states))
    assert not states.clients()
    assert not torch.distributed.is_initialized()


def test_a_worker_that_hangs_is_replaced_after_the_timeout(monkeypatch, tmp_path, capfd):
    expected, straight = run_all(2, ALGORITHMS["scaffold"]())
    fail_in_workers(monkeypatch, tmp_path, signal.SIGSTOP, times=1)
    started = time.monotonic()
    records, stopped = run_all(2, ALGORITHMS["scaffold"](), timeout=3)
    assert time.monotonic() - started < 30
    assert records == expected
    assert_equal(straight, stopped)
    assert "rank 1 made no progress for 3 s; it is replaced" in capfd.readouterr().out


def test_a_client_that_takes_longer_than_the_timeout_is_not_dead(capfd):
    class Slow(FedAvg):
        def loss(self, net: FlatNet, x: torch.Tensor, y: torch.Tensor, client: ClientContext) -> torch.Tensor:
            time.sleep(0.7 if os.getpid() != rank_0 else 0)
            return super().loss(net, x, y, client)

    rank_0 = os.getpid()
    list(rounds(2, Slow(), H=1, timeout=2))
    assert "made no progress" not in capfd.readouterr().out


def test_workers_that_die_during_evaluation_do_not_cost_the_round(monkeypatch):
    def evaluate_or_die(trainer: LocalTrainer, images: ImageTensors) -> EvalResult:
        if os.getpid() != rank_0 and len(images) > 10:  # a part of the test set, not a client's held-out samples
            os._exit(3)
        return evaluate(trainer, images)

    rank_0, evaluate = os.getpid(), LocalTrainer.evaluate
    expected = [round_.test().accuracy for round_ in islice(rounds(1, FedAvg()), 2)]
    monkeypatch.setattr(LocalTrainer, "evaluate", evaluate_or_die)
    assert [round_.test().accuracy for round_ in islice(rounds(2, FedAvg()), 2)] == expected


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_ranks_and_another_number_of_ranks_resumes(tmp_path, number):
    process = child(tmp_path, *LONG, "ranks=2", "checkpoint.every=0")
    wait_for(lambda: has_two_rounds(tmp_path))
    (worker,) = workers_of(process)
    for pid in (worker, process):  # Ctrl-C in a terminal and a scheduler's signal reach all processes
        os.kill(pid, number)
    assert ended(process) == 128 + number
    folder = run_folder(tmp_path)
    assert read_json(folder / "status.json")["status"] == "interrupted"
    written = len(read_lines(folder / "metrics.jsonl"))
    (manifest,) = folder.glob("checkpoint/*.json")
    assert read_json(manifest)["round"] == written
    wait_for(lambda: not Path(f"/proc/{worker}").exists())
    process = child(tmp_path, *LONG, "ranks=3")
    wait_for(lambda: f"resume    after round {written}," in (tmp_path / "output").read_text())
    os.kill(process, signal.SIGTERM)
    ended(process)


@pytest.mark.slow
def test_a_run_survives_its_workers(tmp_path):
    overrides = (*LONG, "fl_scene.H=25")
    process = child(tmp_path / "killed", *overrides, "ranks=3")
    wait_for(lambda: has_two_rounds(tmp_path / "killed"))
    first, second = workers_of(process)
    os.kill(second, signal.SIGKILL)
    assert ended(process) == 0
    output = (tmp_path / "killed/output").read_text()
    assert output.count("rank 2 was killed by SIGKILL; it is replaced") == 1
    assert not Path(f"/proc/{first}").exists()
    assert ended(child(tmp_path / "straight", *overrides, "ranks=1")) == 0
    assert_same_outcome(tmp_path / "straight", tmp_path / "killed")


def die_after_round_3() -> None:
    """From the fourth round on, workers die when they have trained a client."""

    def train_or_die(*args, **kwargs):
        if os.getpid() != rank_0 and args[4] > 3:  # the round
            os.kill(os.getpid(), signal.SIGKILL)
        return train_client(*args, **kwargs)

    rank_0 = os.getpid()
    executor.train_client = train_or_die


@pytest.mark.slow
def test_a_run_whose_workers_die_again_and_again_is_interrupted_and_resumes(tmp_path):
    overrides = (*LONG, "fl_scene.H=8")
    assert ended(child(tmp_path / "killed", *overrides, "ranks=2", prepare=die_after_round_3)) == 1
    status = read_json(run_folder(tmp_path / "killed") / "status.json")
    reason = "rank 1 was killed by SIGKILL (the third worker in a row)"
    assert (status["status"], status["reason"]) == ("interrupted", reason)
    output = (tmp_path / "killed/output").read_text()
    assert output.count(f"fedpan_exp: {reason} after round 3; run the same command to resume: ") == 1
    assert "Traceback" not in output
    assert ended(child(tmp_path / "killed", *overrides, "ranks=3")) == 0
    assert ended(child(tmp_path / "straight", *overrides, "ranks=1")) == 0
    assert_same_outcome(tmp_path / "straight", tmp_path / "killed")


def test_dying_workers_interrupt_only_one_job_of_a_sweep(tmp_path):
    args = ("-m", *LONG, "fl_scene.H=4,3", "ranks=2")
    assert ended(child(tmp_path, *args, prepare=die_after_round_3)) == 1
    output = (tmp_path / "output").read_text()
    assert "(the third worker in a row) after round 3; run the same command to resume it" in output
    assert "sweep  1 interrupted, 1 done, in runs" in output


def test_a_stopped_worker_is_killed_with_rank_0(tmp_path):
    """It would keep the run locked."""
    process = child(tmp_path, *LONG, "ranks=2")
    wait_for(lambda: has_two_rounds(tmp_path))
    (worker,) = workers_of(process)
    os.kill(worker, signal.SIGSTOP)
    os.kill(process, signal.SIGKILL)
    ended(process)
    wait_for(lambda: not is_alive(worker), seconds=30)


def test_workers_do_not_outlive_a_killed_rank_0(tmp_path):
    process = child(tmp_path, *LONG, "ranks=3")
    wait_for(lambda: has_two_rounds(tmp_path))
    workers = workers_of(process)
    os.kill(process, signal.SIGKILL)
    assert ended(process) == -signal.SIGKILL
    wait_for(lambda: not any(is_alive(worker) for worker in workers), seconds=30)


def is_alive(process: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_torchrun_on_two_machines_gives_the_same_numbers(tmp_path):
    """Two "nodes" on loopback, each in its own folder: only the first has a run folder."""
    overrides = (*SMALL, "algorithm=scaffold")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    nodes = [torchrun(tmp_path / f"{node}", *overrides, node=node, nodes=2, ranks=1, port=port) for node in (0, 1)]
    outputs = [node.communicate(timeout=300)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    assert "2 processes" in outputs[0]
    assert outputs[1] == ""
    assert not (tmp_path / "1" / "runs").exists()
    assert ended(child(tmp_path / "straight", *overrides, "ranks=1")) == 0
    assert_same_outcome(tmp_path / "straight", tmp_path / "0")


@pytest.mark.slow
def test_torchrun_resumes_runs_skips_finished_ones_and_rejects_sweeps(tmp_path):
    overrides = (*LONG, "fl_scene.H=40", "checkpoint.every=1")
    process = child(tmp_path, *overrides, "ranks=1")
    wait_for(lambda: has_two_rounds(tmp_path))
    os.kill(process, signal.SIGKILL)
    ended(process)
    resumed = torchrun(tmp_path, *overrides)
    assert "resume    after round" in resumed.communicate(timeout=300)[0]
    assert resumed.returncode == 0
    assert ended(child(tmp_path / "straight", *overrides, "ranks=1")) == 0
    assert_same_outcome(tmp_path / "straight", tmp_path)
    again = torchrun(tmp_path, *overrides)
    assert "already done" in again.communicate(timeout=300)[0]
    assert again.returncode == 0
    sweep = torchrun(tmp_path, "-m", *SMALL, "seed=0,1")
    assert "torchrun must start a single run" in sweep.communicate(timeout=300)[0]
    assert sweep.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_torchrun_restarts_and_resumes_a_run_by_itself(tmp_path, victim):
    overrides = (*LONG, "fl_scene.H=150", "checkpoint.every=1", "fabric.timeout=5")
    launcher = torchrun(tmp_path / "killed", *overrides, restarts=1)
    wait_for(lambda: has_two_rounds(tmp_path / "killed"))
    os.kill(workers_of(launcher.pid)[victim], signal.SIGKILL)
    output = launcher.communicate(timeout=300)[0]
    assert launcher.returncode == 0, output
    assert "resume    after round" in output
    assert ended(child(tmp_path / "straight", *overrides, "ranks=1")) == 0
    assert_same_outcome(tmp_path / "straight", tmp_path / "killed")
