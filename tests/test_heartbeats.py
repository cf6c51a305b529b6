"""Signs of life between the processes of a run."""

import math
import time
from collections.abc import Iterator

import pytest
from processes import wait_for
from torch.distributed import HashStore

from fedpan_exp.federation.executors import heartbeats
from fedpan_exp.federation.executors.heartbeats import SharedHeartbeats, StoreHeartbeats
from fedpan_exp.federation.executors.process_group import ProcessGroup, RankZeroEnded, RankZeroSilent, WorkerDied
from fedpan_exp.system.signals import StopRequest

Pair = tuple[StoreHeartbeats, StoreHeartbeats]


@pytest.fixture
def pair(monkeypatch) -> Iterator[Pair]:
    """Two ranks in one process, 50 times as fast as usual."""
    monkeypatch.setattr(heartbeats, "BEAT_S", 0.02)
    store = HashStore()
    ranks = StoreHeartbeats(0, 2, store), StoreHeartbeats(1, 2, store)
    wait_for(lambda: min(ranks[0].silent_s()) >= 0)  # both have begun
    yield ranks
    for rank in ranks:
        rank.close()


def group(rank: StoreHeartbeats, timeout: float = 0.5) -> ProcessGroup:
    return ProcessGroup(rank, StopRequest(), timeout)


def test_a_process_that_does_nothing_else_beats_by_itself(pair):
    time.sleep(1)
    for rank in pair:
        group(rank).check_alive()


def test_in_training_only_progress_counts(pair):
    rank_0, worker = pair
    with worker.only_progress():
        for _ in range(10):
            time.sleep(0.1)
            worker.beat()
            group(rank_0).check_alive()
        time.sleep(1)
        with pytest.raises(WorkerDied, match=r"rank 1 made no progress for 0\.5 s"):
            group(rank_0).check_alive()
    with rank_0.only_progress():
        time.sleep(1)
        with pytest.raises(RankZeroSilent) as silent:
            group(worker).check_alive()
        assert silent.value.reason == "rank 0 made no progress for 0.5 s"


def test_a_process_that_ends_is_noticed_at_once(pair):
    rank_0, worker = pair
    rank_0.close()
    wait_for(lambda: worker.silent_s()[0] == math.inf, seconds=5)
    with pytest.raises(RankZeroEnded):
        group(worker, timeout=600).check_alive()


def test_a_process_may_start_later_than_the_timeout(monkeypatch):
    monkeypatch.setattr(heartbeats, "BEAT_S", 0.02)
    rank_0 = StoreHeartbeats(0, 2, HashStore())
    time.sleep(0.5)
    group(rank_0, timeout=0.1).check_alive()
    rank_0.close()


def test_the_time_in_which_a_process_could_not_listen_does_not_count(monkeypatch):
    """After Ctrl-Z and fg."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    ranks = SharedHeartbeats(2)
    now += 3600
    assert max(ranks.silent_s()) < 5
    for _ in range(10):
        now += 1
        ranks.silent_s()
    assert min(ranks.silent_s()) >= 10
