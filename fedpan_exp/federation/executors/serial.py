"""All clients in this process, one after the other."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedpan_exp.algorithms import CohortUpdate, ServerState
from fedpan_exp.federation.executors.cohort_sum import CohortSum
from fedpan_exp.federation.executors.executor import Executor
from fedpan_exp.training import EvalResult


class SerialExecutor(Executor):
    @contextmanager
    def start(self, server: ServerState) -> Iterator[None]:
        yield

    def train(self, server: ServerState, cohort: list[int], round_idx: int) -> CohortUpdate:
        total = CohortSum(server, self.task.needs_models(round_idx))
        with self.states.transaction():
            self._train_clients(total, server, cohort, round_idx)
        return total.mean()

    def evaluate(self, server: ServerState) -> EvalResult:
        assert self.task.test is not None, "evaluate() needs task.test"
        self.task.trainer.net.load(self.task.algorithm.evaluated_weights(server), server.buffers)
        return self.task.trainer.evaluate(self.task.test)
