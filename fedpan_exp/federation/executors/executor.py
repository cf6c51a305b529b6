"""The interface of executors: who trains the clients of a round."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from fedpan_exp.algorithms import CohortUpdate, ServerState
from fedpan_exp.federation.client import train_client
from fedpan_exp.federation.client_states import ClientStates
from fedpan_exp.federation.executors.cohort_sum import CohortSum
from fedpan_exp.federation.task import FederatedTask
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.training import EvalResult

T = TypeVar("T")


class Executor(ABC):
    """Trains cohorts and evaluates the server's weights, in one process or several."""

    def __init__(
        self,
        task: FederatedTask,
        states: ClientStates | None = None,
        stop: StopRequest | None = None,
        on_clients_done: Callable[[int], None] = lambda clients: None,
    ):
        self.task, self.states, self.stop = task, states or ClientStates(), stop or StopRequest()
        self._on_clients_done = on_clients_done

    @abstractmethod
    def start(self, server: ServerState) -> AbstractContextManager[None]:
        """Run workers during this context, initialised with `server`."""

    @abstractmethod
    def train(self, server: ServerState, cohort: list[int], round_idx: int) -> CohortUpdate:
        """Train the cohort from the server's weights, and update the clients' states.

        If anything goes wrong, the clients' states remain those of the previous round.
        """

    @abstractmethod
    def evaluate(self, server: ServerState) -> EvalResult:
        """Evaluate the server's weights on the global test set."""

    def interruptible(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items; raise Interrupted once a stop is requested."""
        return self.stop.interruptible(items)

    def _train_clients(self, total: CohortSum, server: ServerState, clients: Iterable[int], round_idx: int) -> None:
        """Train clients in this process, one after the other, and add them to `total`."""
        for k in clients:
            state = {name: vector.to(server.weights.device) for name, vector in self.states[k].items()}
            trained = train_client(self.task, server, k, state, round_idx, self.interruptible)
            total.add(trained)
            if trained.state:
                self.states[k] = {name: vector.cpu() for name, vector in trained.state.items()}
            self._on_clients_done(1)
