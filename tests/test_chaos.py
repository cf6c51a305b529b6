"""The short form of `python -m benchmarks.chaos`: processes are killed at random moments."""

import pytest

from benchmarks.chaos import kill_at_random


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["scaffold", "moon"])
def test_killed_runs_end_with_the_same_weights(tmp_path, algorithm):
    toll = kill_at_random(algorithm, kills=4, seed=1, folder=tmp_path)
    assert toll.kills == 4
    assert (toll.lost, toll.different) == (0, 0)
