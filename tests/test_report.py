"""The report: every figure of the paper from run folders; bad input gives one line or a visible warning."""

import gzip
import json
import re
from base64 import b64decode, b64encode
from collections import Counter
from hashlib import sha256
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pandas
import pytest
from markupsafe import escape
from matplotlib.figure import Figure
from processes import child, ended
from run_folders import is_drawn, make_listing, make_run
from run_sweeps import SWEEPS, make_sweep

from fedpan_exp.report import __main__ as command
from fedpan_exp.report import frame, load, tables
from fedpan_exp.report.build import Report
from fedpan_exp.report.claims import Claim
from fedpan_exp.report.collect import draw_run, figure_of, paper_figures
from fedpan_exp.report.statistics import MeanStd
from fedpan_exp.report.sweeps import Sweep, read_sweeps
from fedpan_exp.system.errors import UserError

# Figures and tables of the paper by their labels, underscores for hyphens, and the five grids.
PAPER = """
sf_prob sf_func sf_func_mnist sf_func_cifar sf_test sf_fl wdiv wdiv_mnist_20 wdiv_cifar_5 assign assign_vgg_conv6
assign_mlp_fc3 prefer prefer_vgg_conv5 prefer_vgg_conv4 prefer_mlp_fc4 prefer_mlp_fc3 compare_noniid
compare_noniid_supp compare_other compare_more compare_alpha compare_alpha_cifar10 compare_alpha_cifar100
compare_scenes compare_scenes_scaffold compare_hyper hyper_cifar10 hyper_cifar100 cent_acc cent ot compare_gn
alpha K E A T controls absorb
"""

PAPER_FIGURES = paper_figures()


def sweep_in(runs: Path) -> Sweep:
    (sweep,), problems = read_sweeps([runs], load(runs))
    assert not problems
    return sweep


def data_of(page: Path) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(text)


def body_of(page: Path) -> str:
    """Without scripts."""
    return re.sub("<script.*?</script>", "", page.read_text(), flags=re.DOTALL)


def test_every_figure_of_the_paper_is_listed_once():
    assert sorted(paper_figure.name for paper_figure in PAPER_FIGURES) == sorted(PAPER.split()) == sorted(SWEEPS)


@pytest.mark.parametrize("paper_figure", PAPER_FIGURES, ids=lambda paper_figure: paper_figure.name)
def test_every_figure_is_drawn_and_answers_the_claims(paper_figure, tmp_path):
    make_sweep(tmp_path, paper_figure.name)
    result = paper_figure.draw(sweep_in(tmp_path))
    assert is_drawn(result.figure)
    cells = result.table.to_numpy().flat
    numbers = [value for value in cells if isinstance(value, MeanStd) and not np.isnan(value.mean)]
    assert numbers
    assert all(np.isfinite(number.mean) for number in numbers)
    answers = [claim.row(result.findings.get(claim.finding)) for claim in paper_figure.claims]
    # The synthetic cent_acc and compare_more have all rows of the paper, so every claim has a number.
    assert answers, "every figure has a claim of the paper"
    assert [quantity for quantity, _, ours, _ in answers if ours in ("not measured", "–")] == []


def test_other_algorithms_have_columns_of_their_own_next_to_the_papers(tmp_path):
    make_sweep(tmp_path, "compare_other")
    (figure,) = (figure for figure in PAPER_FIGURES if figure.name == "compare_other")
    result = figure.draw(sweep_in(tmp_path))
    first, second = result.table.to_dict("records")
    assert (first["Fed², paper"], second["FedDF, paper"]) == (88.29, 80.36)
    assert (first["Fed², ours (%)"].n, first["FedDF, ours (%)"].n, second["FedDF, ours (%)"].n) == (2, 0, 1)
    assert (first["PANs off (%)"].n, first["on - off (points)"].n) == (3, 3)  # of FedAvg alone
    assert "89.10 with E=20" in result.footnotes[0]


def test_variants_of_fedma_have_columns_of_their_own(tmp_path):
    scene = {"dataset": "cifar10", "model": "vgg9", "pan": ("off", 0.0), "fl_scene__K": 16, "fl_scene__R": 1.0}
    variants = [
        {"algorithm__gamma": gamma, "algorithm__init": init} for gamma in (1.0, 7.0) for init in ("own", "common")
    ]
    jobs = [{"seed": seed} | scene | {"algorithm": "fedma"} | variant for seed in (0, 1) for variant in variants]
    table = drawn_in(tmp_path, "compare_other", [*jobs, scene]).table
    names = ("FedMA", "FedMA, common start", "FedMA, growing", "FedMA, growing, common start")
    assert [table[f"{name}, ours (%)"].iloc[0].n for name in names] == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("study", "pictures"),
    {
        "centralize": {"curves"},
        "divergence": {"curves", "divergence", "partition"},
        "doctor": {"encodings"},
        "federate": {"curves", "partition"},
        "fusion": {"fusion"},
        "kept_ratio": {"kept_ratio"},
        "matching": {"curves", "matching", "partition"},
        "partition": {"partition"},
        "preference": {"curves", "partition", "preference"},
        "shuffle_error": {"shuffle_error"},
        "shuffle_federate": {"curves", "partition"},
        "shuffle_test": {"shuffle_test"},
    }.items(),
)
def test_the_files_of_a_run_decide_its_pictures(study, pictures, tmp_path):
    folder = make_run(tmp_path, study=study)
    draw_run(folder)
    assert {path.stem for path in folder.glob("*.png")} == pictures


@pytest.mark.parametrize(("study", "label"), [("federate", "round"), ("centralize", "epoch")])
def test_curves_count_rounds_or_epochs(study, label, tmp_path, monkeypatch):
    figures = []
    savefig = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *args, **options: figures.append(figure) or savefig(figure, *args, **options)
    )
    folder = make_run(tmp_path, study=study)
    (folder / "partition.csv").unlink(missing_ok=True)
    draw_run(folder)
    assert [axes.get_xlabel() for axes in figures[0].axes] == [label] * 2
    (folder / "status.json").unlink()
    draw_run(folder)
    assert [axes.get_xlabel() for axes in figures[1].axes] == ["round"] * 2


def test_written_files_and_the_data_of_the_page(tmp_path, call_main):
    for name in ("alpha", "assign_mlp_fc3"):
        make_sweep(tmp_path / "runs", name)
    make_run(tmp_path / "runs", status="diverged", rounds=2, pan=("mul", 0.75))
    out = tmp_path / "report"
    code, printed, _ = call_main(command.main, tmp_path / "runs", "--out", out)
    assert code == 0
    assert printed == f"{out}/index.html: 2 figures, {len(PAPER_FIGURES) - 2} missing; 30 of 31 runs complete\n"
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    stems = ("alpha-smoke", "assign_mlp_fc3-smoke")
    figures = {f"figures/{stem}.{ending}" for stem in stems for ending in ("png", "svg")}
    tables = {
        f"tables/{stem}.{ending}"
        for stem in (*stems, "paired", "target", "runs", "claims")
        for ending in ("md", "tex", "csv")
    }
    assert names == {"index.html"} | figures | tables

    data = data_of(out / "index.html")
    assert Counter(run["status"] for run in data["runs"]) == {"done": 30, "diverged": 1}
    page = body_of(out / "index.html")
    assert '<div class="tile done"><b>30</b>done</div>' in page
    assert page.index("python -m fedpan_exp sweeps=sf_prob<") < page.index("python -m fedpan_exp sweeps=K<")
    assert page.count("diverged in round 3 at client 7") == 3  # its mark, twice, and the list of incomplete runs
    assert page.count("Ours: scale=smoke.") == page.count("Ours: scale=smoke; ") == 1  # K, R and H are not the paper's
    assert page.count('src="data:image/svg+xml;base64,') == 2
    links = re.findall(r'href="\./([^"]+)"', page)
    assert len(links) == 2 * 5 + 31 * 2
    assert all((out / unquote(link)).exists() for link in links)


def test_without_sweeps_the_page_shows_the_runs(tmp_path):
    for pan in (("off", 0.0), ("mul", 0.1)):
        make_run(tmp_path / "runs", pan=pan)
    Report([tmp_path / "runs"], tmp_path / "report").build()
    data = data_of(tmp_path / "report" / "index.html")
    page = body_of(tmp_path / "report" / "index.html")
    assert (len(data["runs"]), page.count("<article"), page.count('title="missing"')) == (2, 0, len(PAPER_FIGURES))
    paired = page[page.index('id="paired"') : page.index('id="heat"')]
    assert len(re.findall("<tr [^>]*data-pan=", paired)) == 1
    curve = json.loads(gzip.decompress(b64decode(data["runs"][0]["curve"])))
    assert sum(curve["bytes"]) == 8 * 2e7
    assert curve["round"] == [1] * 8


def test_a_curve_on_the_page_is_whole(tmp_path):
    folder = make_run(tmp_path / "runs", fl_scene__H=700)
    with (folder / "metrics.jsonl").open() as file:
        records = [json.loads(line) for line in file]
    Report([tmp_path / "runs"], tmp_path / "report").build()
    (run,) = data_of(tmp_path / "report" / "index.html")["runs"]
    curve = json.loads(gzip.decompress(b64decode(run["curve"])))
    accuracies = [record["global/test_acc"] for record in records]
    assert curve["global/test_acc"] == pytest.approx(accuracies, rel=1e-3)
    seconds = np.cumsum([record["time/round_s"] for record in records])
    assert np.cumsum(curve["seconds"]) == pytest.approx(seconds, rel=1e-3)


def test_two_reports_into_one_folder_lose_nothing(tmp_path):
    make_sweep(tmp_path / "runs", "alpha")
    args = (str(tmp_path / "runs"), "--out", str(tmp_path / "report"))
    both = [child(tmp_path / f"{i}", *args, main=command.main) for i in range(2)]
    assert [ended(process) for process in both] == [0, 0]
    assert [(tmp_path / f"{i}" / "output").read_text().count("1 figure, ") for i in range(2)] == [1, 1]
    assert len(data_of(tmp_path / "report" / "index.html")["runs"]) == 24
    assert not list((tmp_path / "report").rglob(".*"))


def test_differences_from_the_papers_setting_are_listed(tmp_path):
    folders = [
        make_run(tmp_path, algorithm="fedavg", pan=pan, dataset="digits") for pan in (("off", 0.0), ("mul", 0.1))
    ]
    make_listing(tmp_path, "compare_noniid", folders, scale="paper")
    paper_figure = next(paper_figure for paper_figure in PAPER_FIGURES if paper_figure.name == "compare_noniid")
    assert paper_figure.differences_from_paper(sweep_in(tmp_path)) == [
        "dataset=digits where the paper has femnist, cifar10, cifar100 and cinic10",
        "H=8 where the paper has 1000",
        "without algorithm=fedprox, fedopt, scaffold and moon",
    ]


def test_a_smaller_network_and_fewer_images_are_differences_in_every_figure(tmp_path):
    full = {"dataset": "cifar10", "model": "vgg9", "fl_scene__H": 8}
    folders = [
        make_run(tmp_path, **full, model__width_factor=1.0),
        make_run(tmp_path, **full, model__width_factor=0.25),
    ]
    folders.append(make_run(tmp_path, **full, dataset__samples=5000))
    differences = {}
    for folder in folders:
        make_listing(tmp_path, "K", [folder], scale="paper")
        [paper_figure] = [figure for figure in PAPER_FIGURES if figure.name == "K"]
        differences[folder] = set(paper_figure.differences_from_paper(sweep_in(tmp_path)))
    whole, narrow, few = differences.values()
    assert narrow - whole == {"model.width_factor=0.25 where the paper has 1"}
    assert few - whole == {"dataset.samples=5000 where the paper has all"}


def test_users_as_clients_are_no_difference(tmp_path):
    """FeMnist has neither K nor alpha, in the paper as here."""
    natural = {"fl_scene__K": 0, "fl_scene__partition": "natural", "fl_scene__H": 1000}
    folder = make_run(tmp_path, rounds=8, dataset="femnist", **natural)
    make_listing(tmp_path, "compare_noniid", [folder], scale="paper")
    paper_figure = next(paper_figure for paper_figure in PAPER_FIGURES if paper_figure.name == "compare_noniid")
    assert [
        text for text in paper_figure.differences_from_paper(sweep_in(tmp_path)) if "K=" in text or "alpha" in text
    ] == []


def test_a_claim_is_compared_with_our_number():
    ours = MeanStd(85.5, 0.2, 3)
    assert Claim("x", 86.83, "x").row(ours) == ("x", "86.83", "85.50 ± 0.20", "-1.33")
    assert Claim("x", [1.0, 2.0], "x").row(MeanStd(1.5))[3] == "within"
    assert Claim("x", [1.0, 2.0], "x").row(MeanStd(0.25))[3] == "-0.75"
    assert Claim("x", 86.83, "x").row(None)[2:] == ("not measured", "")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["empty"], "fedpan_exp: there are no runs in empty; make one with python -m fedpan_exp\n"),
        (["nowhere"], "fedpan_exp: there is no folder nowhere\n"),
        (["runs", "--sweep", "alhpa"], "fedpan_exp: there is no sweep alhpa; did you mean alpha?\n"),
        (
            ["runs", "--sweep", "K"],
            "fedpan_exp: there are no runs of the sweep K; make them with python -m fedpan_exp sweeps=K\n",
        ),
        (["runs", "--target", "80"], "fedpan_exp: --target must be above 0 and at most 1, got 80.0\n"),
    ],
)
def test_bad_input_gives_one_line_and_writes_nothing(args, message, tmp_path, monkeypatch, call_main):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    make_run(Path("runs"))
    assert call_main(command.main, *args) == (1, "", message)
    assert not Path("report").exists()


def test_damaged_folders_give_warnings(tmp_path):
    runs = tmp_path / "runs"
    folders = [make_run(runs, pan=pan, seed=seed) for pan in (("off", 0.0), ("mul", 0.1)) for seed in (0, 1)]
    (folders[0] / "status.json").unlink()
    (folders[1] / "config.yaml").write_text("- not\n- settings\n")
    status = json.loads((folders[2] / "status.json").read_text())
    (folders[2] / "status.json").write_text(json.dumps({**status, "versions": {"fedpan_exp": "0.2.0", "torch": "3.0"}}))
    make_listing(runs, "alpha", [*folders, runs / "gone"])
    (runs / ".sweeps" / "broken-smoke.json").write_text('{"sweep": "broken", ')
    (runs / "notes").mkdir()
    Report([runs], tmp_path / "report").build()
    assert sorted(load(runs)["problem"]) == [
        "",
        "",
        "config.yaml is missing or damaged",
        "unreadable; status.json is missing or damaged",
    ]
    page = body_of(tmp_path / "report" / "index.html")
    warnings = re.findall('<p class="warning[^>]*>(.*?)</p>', page)
    assert warnings[0].startswith("The runs were made by 3 versions of the package: ")  # one of them unknown
    assert "broken-smoke.json cannot be read as a sweep" in warnings[1]
    assert warnings[2] == "incomplete and left out: 2 of 4 runs (1 unreadable, 1 damaged)"
    assert warnings[3] == "runs of the sweep that are missing: 1"
    assert warnings[4].startswith("made by 2 versions of the package")


def test_a_sweep_whose_runs_are_gone_is_refused_in_one_line(tmp_path):
    make_run(tmp_path / "runs")
    make_listing(tmp_path / "runs", "mine", [tmp_path / "runs" / "gone"])
    with pytest.raises(UserError, match=r"there are no runs of the sweep mine; make them with python -m fedpan_exp"):
        Report([tmp_path / "runs"], tmp_path / "report", ["mine"]).build()


def test_runs_of_different_settings_have_no_mean(tmp_path):
    runs = tmp_path / "runs"
    folders = [make_run(runs, pan=pan, fl_scene__H=H, seed=0) for pan in (("off", 0.0), ("mul", 0.1)) for H in (8, 16)]
    make_listing(runs, "alpha", folders)
    Report([runs], tmp_path / "report").build()
    table = (tmp_path / "report" / "tables" / "alpha-smoke.md").read_text()
    assert "– (runs differ in fl_scene.H)" in table


HTML = "</script><script>document.title='hacked'</script><img src=x onerror=alert(1)>"


def test_html_in_a_name_or_value_stays_text(tmp_path):
    runs = tmp_path / "runs"
    folders = [
        make_run(runs, algorithm="<b>fedavg", pan=pan, **{f"training__{HTML}": HTML if pan[1] else 1})
        for pan in (("off", 0.0), ("mul", 0.1))
    ]
    make_listing(runs, "alpha", folders, swept=[HTML])
    listing = runs / ".sweeps" / "alpha-smoke.json"
    listing.write_text(json.dumps({**json.loads(listing.read_text()), "sweep": "../../" + HTML, "command": HTML}))
    Report([runs], tmp_path / "report").build()
    page = (tmp_path / "report" / "index.html").read_text()
    assert HTML not in page
    assert "<img src=x" not in page
    assert page.count("</script>") == 3
    data = data_of(tmp_path / "report" / "index.html")
    assert f"training.{HTML}" in data["varying"]
    assert f"<span>{escape(HTML)}</span><button" in page
    assert {path.parent.name for path in (tmp_path).rglob("*hacked*")} <= {"figures", "tables"}


def test_a_page_makes_no_requests(tmp_path):
    make_run(tmp_path / "runs")
    Report([tmp_path / "runs"], tmp_path / "report").build()
    page = body_of(tmp_path / "report" / "index.html")
    policy = re.findall("default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src ([^;]+);", page)
    scripts = re.findall("<script>(.*?)</script>", (tmp_path / "report" / "index.html").read_text(), re.DOTALL)
    digests = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    assert [unescape(sources) for sources in policy] == [" ".join(f"'sha256-{digest}'" for digest in digests)]
    assert not re.findall(r'(?:src|href)="(?!#|data:|\./)', page)


def test_only_changed_runs_are_read_and_drawn_again(tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    make_sweep(runs, "K")
    make_listing(runs, "E", [make_run(runs, fl_scene__E=E, pan=("off", 0.0)) for E in (1, 2)])
    report = Report([runs], tmp_path / "report")
    report.build()
    state = report.state()
    read, drawn = [], []
    monkeypatch.setattr(
        "fedpan_exp.report.frame.RunEntry.settings",
        property(lambda entry, real=frame.RunEntry.settings.func: read.append(entry.folder) or real(entry)),
    )
    redraw = Report._redraw
    monkeypatch.setattr(
        Report,
        "_redraw",
        lambda self, paper_figure, sweep: drawn.append(sweep.name) or redraw(self, paper_figure, sweep),
    )
    report.build()
    assert (read, drawn) == ([], [])
    assert report.state() == state
    new = make_run(runs, fl_scene__E=2, pan=("off", 0.0), rounds=9)
    assert report.state() != state
    report.build()
    assert (set(read), drawn) == ({new}, ["E"])


def test_watching_ends_with_ctrl_c(tmp_path, monkeypatch, call_main):
    make_run(tmp_path / "runs", seed=0)
    sleeps = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 2:
            raise KeyboardInterrupt
        make_run(tmp_path / "runs", seed=1)

    monkeypatch.setattr("time.sleep", sleep)
    code, printed, error = call_main(command.main, tmp_path / "runs", "--out", tmp_path / "report", "--watch")
    assert (code, error) == (0, "")
    assert [line.split("; ")[-1] for line in printed.splitlines()] == [
        "1 of 1 runs complete",
        "stop with Ctrl-C",
        "2 of 2 runs complete",
        "",
        "the report is left as it is",
    ]


def test_tables_in_three_formats():
    rows = [["R_kept & <i>", MeanStd(1.23456, 0.5, 3)], ["50%", MeanStd(n=0)]]
    table = pandas.DataFrame(rows, columns=["a|b", "x (%)"])
    assert tables.markdown(table).splitlines() == [
        "| a\\|b            | x (%)       |",
        "|:----------------|:------------|",
        "| R_kept & &lt;i> | 1.23 ± 0.50 |",
        "| 50%             | –           |",
    ]
    assert r"R\_kept \& $<$i$>$ & 1.23 $\pm$ 0.50 \\" in tables.latex(table)
    assert tables.csv(table) == "a|b,x (%),x (%) deviation,x (%) n\nR_kept & <i>,1.23456,0.5,3\n50%,,,0\n"


OFF, MUL = ("off", 0.0), ("mul", 0.1)


def drawn_in(runs: Path, sweep: str, settings: list[dict], swept: list[str] | None = None, **options):
    make_listing(runs, sweep, [make_run(runs, **each, **options) for each in settings], swept)
    drawn = sweep_in(runs)
    return figure_of(drawn).draw(drawn)


def test_every_kind_of_pan_is_drawn_against_its_amplitude(tmp_path):
    settings = [{"pan": pan} for pan in (OFF, ("frozen_bias", 0.1), ("frozen_bias", 0.2), ("after", 0.1))]
    result = drawn_in(tmp_path, "mine", settings, ["pan", "pan.A"])
    assert set(result.table["PAN"]) == {"off", "frozen_bias", "after"}
    assert "best frozen_bias A" in result.findings


def test_a_setting_that_is_null_in_some_runs_is_drawn(tmp_path):
    settings = [{"training__clip": clip, "pan": pan} for clip in (None, 5.0) for pan in (OFF, MUL)]
    result = drawn_in(tmp_path, "mine", settings, ["training.clip", "pan"])
    assert set(result.table["setting"]) == {"clip=5", "clip=null"}


def test_findings_of_several_datasets_name_them(tmp_path):
    settings = [{"dataset": dataset, "pan": pan} for dataset in ("cifar10", "cifar100") for pan in (OFF, MUL)]
    found = drawn_in(tmp_path, "T", settings).findings["spread mul T"]
    assert found == "cifar10: 0.00 points; cifar100: 0.00 points"


def test_the_scene_of_the_paper_goes_before_one_with_another_number_of_epochs(tmp_path):
    scene = {"fl_scene__K": 16, "fl_scene__R": 1.0, "fl_scene__alpha": 0.5, "dataset": "cifar10", "pan": OFF}
    result = drawn_in(tmp_path, "compare_other", [scene | {"fl_scene__E": E} for E in (20.0, 2.0)])
    cells = result.table.set_index("(K, R, alpha, E)")["PANs off (%)"]
    assert result.findings["(16, 1, 0.5, 20) off"] == cells["(16, 1, 0.5, 20)"]


def test_divergence_is_drawn_where_some_runs_are_not_complete(tmp_path):
    folders = [
        make_run(tmp_path, status, study="divergence", pan=pan, fl_scene__alpha=alpha)
        for pan in (OFF, MUL)
        for alpha, status in ((1.0, "done"), (0.1, "interrupted"))
    ]
    make_listing(tmp_path, "wdiv", folders)
    drawn = sweep_in(tmp_path)
    result = figure_of(drawn).draw(drawn)
    assert result.figure.axes[1].patches
    assert not result.figure.axes[0].patches  # alpha=0.1


def test_shuffles_are_drawn_from_an_archive_without_their_permutation(tmp_path):
    folder = make_run(tmp_path, study="kept_ratio")
    make_listing(tmp_path, "sf_prob", [folder])
    drawn = sweep_in(tmp_path)
    with_permutation = figure_of(drawn).draw(drawn)
    (folder / "order.json").unlink()
    without = figure_of(drawn).draw(drawn)
    assert [len(result.figure.axes) for result in (with_permutation, without)] == [3, 2]
    assert without.findings
