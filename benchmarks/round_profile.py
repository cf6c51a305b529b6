"""Where the time of a round goes, as rank 0 sees it: it trains half of the clients, like the other process."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from fedpan_exp import config
from fedpan_exp.federation import FederatedTask, federate, make_executor
from fedpan_exp.federation.executors.cohort_sum import CohortSum
from fedpan_exp.federation.executors.process_group import ProcessGroup
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import quietly

T = TypeVar("T")


class Stopwatch:
    """Seconds per part; the time of a part excludes that of the parts within it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._account()
        self._running.append(name)
        try:
            yield
        finally:
            self._account()
            self._running.pop()

    def _account(self) -> None:
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def timed(self, function: Callable[..., T], name: str) -> Callable[..., T]:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> T:
            with self.part(name):
                return function(*args, **kwargs)

        return timed

    def timed_items(self, function: Callable[..., Iterable[T]], name: str) -> Callable[..., Iterator[T]]:
        """Likewise, for the items that the function yields."""

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Iterator[T]:
            items = iter(function(*args, **kwargs))
            done = object()
            while (item := self.timed(next, name)(items, done)) is not done:
                yield item

        return timed


def profile_round(*overrides: str, rounds: int = 5) -> dict[str, float]:
    """Seconds per round of each part, the evaluation included, over two processes; the longest first."""
    setting = config.experiment(*overrides, f"fl_scene.H={rounds + 1}", "fabric.accelerator=cpu")
    with quietly():
        task = make_task(setting, set_up(setting))
    watch = Stopwatch()
    with _timing(task, watch):
        run = federate(task, make_executor(task, ranks=2))
        next(run).test()  # warms up
        watch.seconds.clear()
        with watch.part("everything else"):
            for round_ in run:
                round_.test()
    return {name: seconds / rounds for name, seconds in sorted(watch.seconds.items(), key=lambda item: -item[1])}


@contextmanager
def _timing(task: FederatedTask, watch: Stopwatch) -> Iterator[None]:
    """Time the parts of a round in this context. Workers are timed too, but nobody reads their times."""
    trainer = task.trainer
    places: list[tuple[Any, str, str]] = [
        (task.algorithm, "loss", "forward"),
        (trainer.fabric, "backward", "backward"),
        (trainer, "_clip_gradient_norm", "clipping"),
        (trainer._optimizer, "step", "optimizer"),
        (trainer, "evaluate", "evaluation"),
        (CohortSum, "add", "sum over clients, 64 bits"),
        (ProcessGroup, "broadcast_vectors", "sending weights"),
        (ProcessGroup, "all_reduce", "sum over processes"),
        (ProcessGroup, "meet", "waiting for the other process"),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    batches = task.clients.batches
    for (owner, name, function), (*_, part) in zip(originals, places, strict=True):
        setattr(owner, name, watch.timed(function, part))
    task.clients.batches = watch.timed_items(batches, "batches")  # type: ignore[method-assign]
    try:
        yield
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)
        task.clients.batches = batches  # type: ignore[method-assign]
