"""Verdicts on the paper's claims, and the gain of choosing the best of several."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from run_folders import make_listing, make_run

from fedpan_exp.report.build import Report
from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.collect import figure_of
from fedpan_exp.report.figure import FigureResult
from fedpan_exp.report.frame import load
from fedpan_exp.report.statistics import MeanStd, gain_by_choosing, pair_gains
from fedpan_exp.report.sweeps import read_sweeps
from fedpan_exp.report.verdicts import Judged, count_verdicts, draw_verdicts, verdict_table

FIGURE = PaperFigure("mine", "Mine", "It holds.", lambda runs: FigureResult(None))
ABOVE, NUMBER, WORDING = Claim("gain", "higher", "gain", "above 0"), Claim("acc", 80, "acc"), Claim("A", "small", "A")


@pytest.mark.parametrize(
    ("claim", "ours", "comparable", "verdict"),
    [
        (ABOVE, MeanStd(1.0, 0.2, 6), False, "supported"),
        (ABOVE, MeanStd(-1.0, 0.2, 6), False, "refuted"),
        (ABOVE, MeanStd(0.3, 0.2, 6), False, "undecided"),
        (ABOVE, MeanStd(1.0, 0.2, 3), False, "undecided"),  # no interval yet
        (ABOVE, MeanStd(1.0), False, "undecided"),
        (NUMBER, MeanStd(80.1, 0.1, 9), True, "supported"),
        (NUMBER, MeanStd(60.0, 0.1, 9), True, "refuted"),
        (NUMBER, MeanStd(60.0, 0.1, 9), False, "measured"),  # at another scale this says nothing
        (ABOVE, MeanStd(1.0, 0.0, 2), False, "undecided"),
        (WORDING, "0.1 (93%)", True, "measured"),
        (WORDING, "", True, "not run"),  # there was nothing to measure
        (ABOVE, None, False, "not run"),
    ],
)
def test_a_verdict_needs_an_interval_and_numbers_need_the_papers_settings(claim, ours, comparable, verdict):
    assert Judged(FIGURE, claim, "laptop", ours, comparable).verdict == verdict


def test_an_undecided_claim_says_what_would_decide_it():
    judged = Judged(FIGURE, ABOVE, "laptop", MeanStd(0.3, 0.2, 6), False)
    (row,) = verdict_table([judged]).to_dict("records")
    assert row["verdict"] == f"undecided (about {judged.seeds_needed} would decide)"
    assert 6 < judged.seeds_needed < 20
    assert row["command"] == "python -m fedpan_exp sweeps=mine scale=laptop"
    assert count_verdicts([judged, Judged(FIGURE, WORDING, "", None, False)]) == "1 undecided, 1 not run"


def test_the_picture_shows_claims_on_signs_and_no_interval_of_few_seeds():
    below = Claim("loss", "lower", "loss", "below 0")
    few, many = (Judged(FIGURE, below, "laptop", MeanStd(-1.0, 0.0, n), False) for n in (2, 6))
    assert few.interval is None
    (axes,) = draw_verdicts([few, many]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["loss\nmine, laptop: supported"]


OFF, ADD, MUL, HALF = ("off", 0.0), ("add", 0.05), ("mul", 0.1), ("mul", 0.05)
SHUFFLED = {"study": "shuffle_federate", "study__N_sf": 0.2}


@pytest.mark.parametrize(
    ("sweep", "finding", "settings"),
    [
        ("assign", "gain", [{"study": "matching", "pan": pan} for pan in (OFF, ADD, MUL)]),
        ("controls", "PAN∘", [{"pan": pan, "fl_scene__alpha": alpha} for pan in (OFF, MUL) for alpha in (1.0, 0.1)]),
        ("controls", "PAN∘", [{"pan": pan} for pan in (OFF, MUL, HALF)]),
        ("ot", "middle", [{"study": "fusion", "pan": pan} for pan in (OFF, MUL)]),
        ("sf_test", "change off", [{"study": "shuffle_test", "pan": pan} for pan in (OFF, MUL)]),
        (
            "sf_fl",
            "drop",
            [{"pan": OFF, "fl_scene__alpha": 10.0} | more for more in ({"fl_scene__alpha": 0.1}, {}, SHUFFLED)],
        ),
    ],
)
def test_claims_have_an_interval_with_seeds_as_its_unit(sweep, finding, settings, tmp_path):
    """Runs of one seed with several PANs or alphas are not independent."""
    folders = [make_run(tmp_path, **each, seed=seed) for each in settings for seed in range(5)]
    make_listing(tmp_path, sweep, folders)
    runs = load(tmp_path)
    (drawn,), _ = read_sweeps([tmp_path], runs)
    result = figure_of(drawn).draw(drawn).findings[finding]
    assert result.n == 5
    assert result.deviation >= 0
    if sweep == "controls":
        gains = pair_gains(runs)
        assert result.mean == pytest.approx(100 * gains.mean())  # over both alphas, and over both amplitudes


@pytest.mark.parametrize("study", ["divergence", "matching"])
def test_what_no_run_could_measure_is_not_run(study, tmp_path):
    make_listing(
        tmp_path, {"divergence": "wdiv", "matching": "assign"}[study], [make_run(tmp_path, study=study, pan=OFF)]
    )
    report = Report([tmp_path], tmp_path / "report")
    report.build()
    assert {each.claim.finding for each in report.judged if each.verdict != "not run"} <= {"off"}


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "pans"), [(3, 3), (6, 2)])
def test_the_gain_of_choosing_is_what_the_best_of_equally_good_columns_gains(seeds, pans):
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame(rng.normal(size=(seeds, pans)) + rng.normal(size=(seeds, 1))) for _ in range(600)]
    gained = np.mean([table.mean().max() - table.mean().mean() for table in tables])
    assert np.mean([gain_by_choosing(table) for table in tables]) == pytest.approx(gained, rel=0.1)
    assert gain_by_choosing(tables[0][[0]]) == 0


def test_the_report_judges_the_claims_of_its_sweeps(tmp_path):
    runs, pans = tmp_path / "runs", (("off", 0.0), ("mul", 0.1))
    folders = [
        make_run(runs, pan=pan, fl_scene__alpha=alpha, seed=seed)
        for pan, alpha, seed in product(pans, (10.0, 1.0), range(6))
    ]
    make_listing(runs, "alpha", folders)
    report = Report([runs], tmp_path / "report")
    report.build()
    alpha = {each.claim.finding: each for each in report.judged if each.figure.name == "alpha"}
    assert alpha["fair gain"].ours.n == 6  # seeds, not pairs
    assert alpha["fair gain"].verdict in ("supported", "refuted", "undecided")
    assert alpha["gains"].verdict == "measured"
    others = [each.verdict for each in report.judged if each.figure.name != "alpha"]
    assert set(others) == {"not run"}
    assert "| alpha " in (tmp_path / "report" / "tables" / "claims.md").read_text()
    assert (tmp_path / "report" / "figures" / "claims.svg").exists()
