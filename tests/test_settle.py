"""seed=auto: intervals that hold under peeking, and sweeps that stop by themselves."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from fedpan_exp.config.settle import Settle
from fedpan_exp.report.confidence_sequence import confidence_sequence, half_width
from fedpan_exp.sweeping.jobs import read_jobs
from fedpan_exp.sweeping.settle import Standing, find_comparisons
from fedpan_exp.system.errors import ConfigError

EXPERIMENTS, PAIRS = 4_000, 40
QUICK = ("-m", "scale=smoke", "model.depth=0", "pan=off", "fl_scene.H=1", "fl_scene.E=1", "seed=auto")


def ever_wrong(values: np.ndarray, widths: np.ndarray) -> float:
    """The fraction of experiments, rows, whose interval misses the true mean 0 after any of their pairs.

    `widths` are half the interval after 2, 3, ... pairs, in sample standard deviations.
    """
    n = np.arange(1, values.shape[1] + 1)
    mean = values.cumsum(1) / n
    variance = ((values**2).cumsum(1) - n * mean**2)[:, 1:] / (n[1:] - 1)
    return float((np.abs(mean[:, 1:]) > widths * np.sqrt(variance)).any(1).mean())


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_an_interval_seen_after_every_pair_misses_the_mean_as_rarely_as_it_says(level):
    values = np.random.default_rng(0).standard_normal((EXPERIMENTS, PAIRS))
    widths = np.array([half_width(n, level) for n in range(2, PAIRS + 1)])
    noise = 3 * math.sqrt(level * (1 - level) / EXPERIMENTS)
    assert (1 - level) / 4 < ever_wrong(values, widths) < 1 - level + noise
    # The ordinary interval of Student, seen as often, does not hold.
    n = np.arange(2, PAIRS + 1)
    assert ever_wrong(values, t.ppf((1 + level) / 2, n - 1) / np.sqrt(n)) > 2.5 * (1 - level)


@pytest.mark.parametrize("draw", ["uniform", "standard_t", "laplace"])
def test_it_also_holds_for_differences_that_are_not_normal(draw):
    rng = np.random.default_rng(0)
    size = (EXPERIMENTS, PAIRS)
    values = {
        "uniform": lambda: rng.uniform(-1, 1, size),
        "standard_t": lambda: rng.standard_t(3, size),
        "laplace": lambda: rng.laplace(size=size),
    }[draw]()
    widths = np.array([half_width(n, 0.95) for n in range(2, PAIRS + 1)])
    assert ever_wrong(values, widths) < 0.06


def test_an_interval_needs_four_pairs_and_narrows_with_more():
    assert confidence_sequence([]) == confidence_sequence([1.0, 1.1, 0.9]) == (-math.inf, math.inf)
    low, high = confidence_sequence([1.0, 1.1, 0.9, 1.0])
    assert low + high == pytest.approx(2.0)
    widths = [half_width(n, 0.95) for n in range(4, 200)]
    assert widths == sorted(widths, reverse=True)


def test_a_comparison_is_settled_in_two_ways_and_says_what_a_third_would_take():
    settle = Settle(margin=0.5)
    above, equal, unclear = (
        Standing(values, settle) for values in [(3, 3.2, 2.9, 3.1), (0.01, -0.01, 0.02, 0), (1, -1, 2, -2, 0)]
    )
    assert [each.verdict for each in (above, equal)] == ["above 0", "known to 0.05"]
    assert max(above.gap, equal.gap) < 0 < unclear.gap
    assert unclear.verdict == "undecided"
    deviation = np.std(unclear.differences, ddof=1)
    assert half_width(unclear.pairs_needed, 0.95) * deviation <= 0.5
    assert half_width(unclear.pairs_needed - 1, 0.95) * deviation > 0.5


def test_settings_are_compared_with_pans_off_else_with_the_first_job():
    jobs = read_jobs("dataset=digits", "model.width=8", "pan.A=0.1,0", "pan.T=1,2", "fl_scene.alpha=1,10")
    comparisons = find_comparisons(jobs)
    assert len(comparisons) == 4  # A=0 is one run for both T
    for comparison in comparisons:
        variant, baseline = jobs[comparison.variant].experiment, jobs[comparison.baseline].experiment
        assert (variant.pans_off, baseline.pans_off) == (False, True)
        assert variant.fl_scene.alpha == baseline.fl_scene.alpha
    algorithms = find_comparisons(read_jobs("dataset=digits", "model.width=8", "algorithm=fedavg,fedprox,moon"))
    assert [(each.variant, each.baseline) for each in algorithms] == [(1, 0), (2, 0)]
    with pytest.raises(ConfigError, match="at least two settings"):
        find_comparisons(jobs[:1])


def test_a_setting_without_its_own_baseline_is_left_out(capsys):
    """Compared with the first job, a difference would be one of alpha as well."""
    jobs = read_jobs("dataset=digits", "model.width=8", "pan.A=0,0.1", "fl_scene.alpha=1,10")
    kept = [job for job in jobs if job.experiment.pan.A or job.experiment.fl_scene.alpha == 1]
    [comparison] = find_comparisons(kept)
    assert kept[comparison.variant].experiment.fl_scene.alpha == 1
    assert "leaves out pan.A=0.1 alpha=10: the sweep has no job" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_a_sweep_stops_when_it_is_settled_and_resumes_with_what_it_knows(command):
    """A linear classifier learns something with lr=0.2, and nothing with lr=1e-9 or 2e-9."""
    spent = command(*QUICK, "training.lr=1e-9,0.2", "settle.hours=1e-9")
    assert not Path("runs").exists()
    assert "undecided" in spent.out

    first = command(*QUICK, "training.lr=1e-9,0.2", "settle.seeds=1")
    assert first.code == 0, first.err
    assert "sweep  1 comparison, until known to 0.5 points or not 0; at most 1 seed each, 8 hours" in first.out
    assert len(first.runs) == 2
    assert "undecided" in first.out

    second = command(*QUICK, "training.lr=1e-9,0.2", "settle.margin=0.001", "settle.level=0.5")
    assert second.code == 0, second.err
    assert "above 0" in second.out
    new = len(second.runs) - 2
    assert 2 <= new <= 10
    assert len(re.findall(r"^sweep  \d+/\d+  ", second.out, re.MULTILINE)) == new

    third = command(*QUICK, "training.lr=1e-9,2e-9", "settle.level=0.5")
    assert "known to 0.00" in third.out
    assert len(third.runs) < len(second.runs) + 10


def test_a_single_run_needs_a_number(command):
    ended = command("scale=smoke", "seed=auto")
    assert (ended.code, ended.err) == (
        1,
        "fedpan_exp: seed must be a whole number (seed=auto needs a sweep), got auto\n",
    )
