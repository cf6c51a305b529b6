"""The round loop: sample a cohort, train it, aggregate, yield.

One round can be read in four files: this one, client.py (the local training of one client), the algorithm's own file
(its hooks, called there and here), and training/local.py (the SGD loop). Executors decide which process trains whom.
"""

import math
import time
from collections.abc import Callable, Generator
from functools import partial

from fedpan_exp.algorithms import ServerState
from fedpan_exp.federation.checkpoint import Checkpoint
from fedpan_exp.federation.executors import Executor, SerialExecutor
from fedpan_exp.federation.round import Round
from fedpan_exp.federation.snapshot import Snapshot
from fedpan_exp.federation.task import FederatedTask
from fedpan_exp.system.errors import Diverged, UserError
from fedpan_exp.training import EvalResult, FlatParameters


def federate(
    task: FederatedTask, executor: Executor | None = None, resume: Checkpoint | None = None
) -> Generator[Round]:
    """Yield every round after its aggregation, starting after the checkpoint `resume` if there is one.

    A stop request is honoured between two batches. The server and the clients' states are then still those of the
    previous round, so that a checkpoint can be saved.
    """
    active: Executor = executor or SerialExecutor(task)
    server = resume.server if resume else task.init_server()
    done = resume.round_idx if resume else 0

    def test(round_idx: int) -> EvalResult:
        if round_idx != done:  # the server is that of a later round
            raise UserError(f"a round must be tested before the next one, got round {round_idx} after round {done}")
        return active.evaluate(server)

    try:
        with active.start(server):
            for round_idx in range(done + 1, task.scene.H + 1):
                round_ = run_round(task, active, server, round_idx, partial(test, round_idx))
                done = round_idx
                yield round_
    finally:
        active = SerialExecutor(task)  # the last round can be tested when the workers have ended


def run_round(
    task: FederatedTask, executor: Executor, server: ServerState, round_idx: int, test: Callable[[], EvalResult]
) -> Round:
    """Train a cohort and move the server."""
    started = time.perf_counter()
    cohort = task.sample_cohort(round_idx)
    before = FlatParameters(server.weights, server.buffers).cpu_copy() if task.snapshot_at(round_idx) else None

    update = executor.train(server, cohort, round_idx)
    task.algorithm.aggregate(server, update)
    metrics = task.algorithm.fuse(server, update, task.server_context(cohort, round_idx)) if update.models else {}

    if task.scene.bn_statistics == "keep":
        server.buffers = task.initial_buffers.clone()
    if not math.isfinite(server.weights.sum().item()):
        raise Diverged(task.divergence_message(f"in round {round_idx}: the averaged weights are not finite"))
    snapshot = Snapshot(cohort, before, update.models) if before else None
    seconds = time.perf_counter() - started
    return Round(round_idx, server, cohort, update, seconds, snapshot, metrics, test)
