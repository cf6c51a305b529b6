"""Clients over several processes. Rank 0 runs the round loop; the others wait for its commands.

Rank 0 alone owns the server, the clients' states, records, checkpoints and signals. The workers own nothing, so that
they may end at any moment. Every rank trains its part of the cohort; the sums are added up over ranks.
"""

import math
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from itertools import chain
from typing import Any, NoReturn, TypeVar

from fedpan_exp.algorithms import CohortUpdate, ServerState
from fedpan_exp.data import ImageTensors
from fedpan_exp.federation.executors.balance import balance
from fedpan_exp.federation.executors.cohort_sum import CohortSum
from fedpan_exp.federation.executors.executor import Executor, T
from fedpan_exp.federation.executors.process_group import ProcessGroup, WorkerDied, WorkerExit, shapes_of
from fedpan_exp.system.atomic_io import WriteError
from fedpan_exp.system.errors import Diverged, UserError
from fedpan_exp.training import EvalResult

R = TypeVar("R")
ERRORS: dict[str, type[Exception]] = {
    "diverged": Diverged,
    "user_error": UserError,
    "write_error": WriteError,
    "internal_error": RuntimeError,
}


class Command(IntEnum):
    EXIT = 0
    TRAIN = 1
    EVALUATE = 2


class ParallelExecutor(Executor):
    """What all executors over several processes share; subclasses start the processes."""

    group: ProcessGroup

    def __init__(self, timeout: float, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.timeout = timeout  # seconds without progress after which a process counts as dead

    def train(self, server: ServerState, cohort: list[int], round_idx: int) -> CohortUpdate:
        return self._with_workers(server, lambda: self._lead_training(server, cohort, round_idx))

    def evaluate(self, server: ServerState) -> EvalResult:
        """If workers die meanwhile, rank 0 evaluates alone: a finished round is recorded with its accuracy."""
        assert self.task.test is not None, "evaluate() needs task.test"
        try:
            return self._with_workers(server, lambda: self._lead_evaluation(server))
        except WorkerDied:
            self.task.trainer.net.load(self.task.algorithm.evaluated_weights(server), server.buffers)
            return self.task.trainer.evaluate(self.task.test)

    def interruptible(self, items: Iterable[T]) -> Iterator[T]:
        for item in super().interruptible(items):
            self.group.check_alive()
            self.group.heartbeats.beat()
            yield item

    @abstractmethod
    def _with_workers(self, server: ServerState, exchange: Callable[[], R]) -> R:
        """Return the result of an exchange between rank 0 and workers that have a copy of `server`."""

    def _lead_training(self, server: ServerState, cohort: list[int], round_idx: int) -> CohortUpdate:
        has_states = bool(self.states.clients())
        self._command(Command.TRAIN, round_idx, has_states, cohort)
        with self.states.transaction():
            return self._train(server, cohort, round_idx, has_states).mean()

    def _lead_evaluation(self, server: ServerState) -> EvalResult:
        self._command(Command.EVALUATE)
        return self._evaluate(server)

    def _serve(self, server: ServerState) -> NoReturn:
        """Follow rank 0's commands until it ends this worker; `server` is a copy of rank 0's."""
        while True:
            command, round_idx, has_states, *cohort = self._receive_command()
            if command == Command.TRAIN:
                self._train(server, cohort, round_idx, bool(has_states))
            elif command == Command.EVALUATE:
                self._evaluate(server)
            else:
                raise WorkerExit(0)

    def _command(
        self, command: Command, round_idx: int = 0, has_states: bool = False, cohort: list[int] | None = None
    ) -> None:
        """Send a command from rank 0 to the workers."""
        self.group.broadcast_ints([command, round_idx, has_states, *(cohort or [0] * self.task.cohort_size)])

    def _receive_command(self) -> list[int]:
        return self.group.broadcast_ints([0] * (3 + self.task.cohort_size))

    def _train(self, server: ServerState, cohort: list[int], round_idx: int, has_states: bool) -> CohortSum:
        """Train this rank's part of the cohort; on rank 0 the result is the sum over all ranks."""
        task, group = self.task, self.group
        group.broadcast_vectors(task.algorithm.payload(server))
        positions = balance([task.clients.samples(k) for k in cohort], group.size)
        parts = [[cohort[position] for position in part] for part in positions]
        exported = group.scatter_states([self.states.export(part) for part in parts]) if has_states else {}
        if not group.is_rank_zero:
            self.states.load(exported)

        total, own = CohortSum(server, task.needs_models(round_idx)), parts[group.rank]
        try:
            reports = group.all_gather(self._train_part(total, server, own, positions[group.rank], round_idx))
            if failures := [failure for failure, *_ in reports if failure]:
                self._fail(min(failures))
            _, measurements, shapes = zip(*reports, strict=True)
            group.all_reduce(total.vectors())
            total.merge(measurements, chain(*positions))
            for states in group.gather_states(self.states.pending(), shapes):
                self.states.apply(states)
        except WorkerDied:
            self._on_clients_done(-min(len(total.stats.fits), len(own)))  # they will be trained again
            raise
        self._on_clients_done(len(cohort) - len(own))
        return total

    def _train_part(
        self, total: CohortSum, server: ServerState, clients: list[int], positions: list[int], round_idx: int
    ) -> tuple[Any, ...]:
        """Train clients and add them to `total`; returns what to report: the first failure, or measurements."""
        try:
            with self.group.heartbeats.only_progress():
                self._train_clients(total, server, clients, round_idx)
            return None, total.measurements(), shapes_of(self.states.pending())
        except Exception as error:
            position = [*positions, math.inf][len(total.stats.fits)]  # of the client that failed
            return ((position, *_describe(error, self.group.rank)),)

    def _fail(self, failure: tuple[float, str, str]) -> NoReturn:
        """Raise the error of the first client of the cohort that had one: a single process would have met it first."""
        _, kind, message = failure
        raise ERRORS[kind](message) if self.group.is_rank_zero else WorkerExit(1)

    def _evaluate(self, server: ServerState) -> EvalResult:
        """Every rank evaluates a part of the test set."""
        assert self.task.test is not None
        trainer, rank, size = self.task.trainer, self.group.rank, self.group.size
        is_rank_zero = self.group.is_rank_zero  # a worker receives into its copy of the server
        weights = self.task.algorithm.evaluated_weights(server) if is_rank_zero else server.weights
        self.group.broadcast_vectors([weights, server.buffers])
        trainer.net.load(weights, server.buffers)
        x, y = (tensor.tensor_split(size)[rank] for tensor in (self.task.test.x, self.task.test.y))
        sums = trainer.evaluate(ImageTensors(x, y)).sums()
        self.group.all_reduce([sums])
        return EvalResult.from_sums(sums)


def _describe(error: Exception, rank: int) -> tuple[str, str]:
    """The kind of error and its message, for rank 0 to raise."""
    for kind in ("diverged", "write_error", "user_error"):
        if isinstance(error, ERRORS[kind]):
            return kind, str(error)
    return "internal_error", f"on rank {rank}:\n{traceback.format_exc()}"
