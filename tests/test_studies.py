"""Studies and their figures are found by their folders; a new question touches nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedpan_exp import studies
from fedpan_exp.report.collect import read_claims
from fedpan_exp.studies import load_studies
from fedpan_exp.system.errors import UserError
from fedpan_exp.system.paths import CLAIMS, CONF, PACKAGE, SWEEPS


def python(*args: str, cwd: Path, package: Path = PACKAGE) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "COLUMNS": "300"}
    return subprocess.run([sys.executable, *args], cwd=cwd, env=environment, text=True, capture_output=True)


def test_every_study_has_a_yaml_and_every_yaml_a_study():
    assert list(load_studies()) == sorted(path.stem for path in CONF.glob("study/*.yaml"))


def test_a_folder_without_a_study_of_its_name_gets_one_line(tmp_path, monkeypatch):
    folder = tmp_path / "misnamed"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "study.py").write_text("class Other:\n    name = 'other'\n")
    monkeypatch.setattr(studies, "__path__", [*studies.__path__, str(tmp_path)])
    rule = f'{folder}/study.py must have one study with name: str = "misnamed", got 0'
    with pytest.raises(UserError, match=f"^{rule}$"):
        load_studies()


def test_figures_are_collected_without_torch(tmp_path):
    names = ["fedpan_exp.studies.matching.figure", "fedpan_exp.report.collect"]
    code = f"import sys, {', '.join(names)} as collect; collect.paper_figures(); assert 'torch' not in sys.modules"
    outcome = python("-c", code, cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr


TOY = {
    "fedpan_exp/studies/toy/__init__.py": "",
    "fedpan_exp/studies/toy/study.py": """
from dataclasses import dataclass

from fedpan_exp.studies.study import Study


@dataclass
class Toy(Study):
    name: str = "toy"
    sides: int = 6
    irrelevant = ("dataset", "model", "pan", "algorithm", "fl_scene", "training", "fabric", "eval_every")

    def run(self, experiment, record, stop):
        record.start()
        record.write(1, {"roll": experiment.seed % self.sides})
        record.write_summary({"summary/roll": experiment.seed % self.sides})
""",
    "fedpan_exp/studies/toy/figure.py": """
import pandas as pd

from fedpan_exp.report.figure import FigureResult, complete_runs, panels
from fedpan_exp.report.statistics import mean_std


def draw(runs):
    rolls = complete_runs(runs, "toy")["summary/roll"]
    figure, (axes,) = panels(["rolls"])
    axes.hist(rolls)
    return FigureResult(figure, rolls.rename("roll").reset_index(), {"mean": mean_std(rolls, 1)})


RUN_PLOTS = {"toy": draw}
""",
    "conf/study/toy.yaml": "# Roll a die with the seed\ndefaults: [schema/toy]\nname: toy\nsides: 6\n",
    "claims/toy.yaml": """
rolls:
  title: Rolls
  statement: Dice are fair.
  draw: toy.draw
  claims: [{claim: mean, expected: 2.5, finding: mean}]
""",
    "sweeps/rolls.yaml": "# Rolls of a die\ngrids:\n  - {study: toy, seed: '1,4'}\n",
}


def test_a_new_question_is_a_folder_its_yaml_and_its_sweep(tmp_path):
    root = tmp_path / "checkout"
    for folder in (PACKAGE, CONF, SWEEPS, CLAIMS):
        shutil.copytree(folder, root / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in TOY.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    run = {"cwd": tmp_path, "package": root / PACKAGE.name}
    assert "toy              Roll a die with the seed\n" in python("-m", "fedpan_exp", "--help", **run).stdout
    ran = python("-m", "fedpan_exp", "sweeps=rolls", **run)
    assert ran.returncode == 0, ran.stderr
    assert len(list(tmp_path.glob("runs/toy-*/toy.png"))) == 2
    built = python("-m", "fedpan_exp.report", "--sweep", "rolls", **run)
    assert built.returncode == 0, built.stderr
    (table,) = tmp_path.glob("report/tables/rolls-*.csv")
    assert sorted(line.rpartition(",")[2] for line in table.read_text().splitlines()[1:]) == ["1", "4"]
    assert '<td class="short">2.50' in (tmp_path / "report" / "index.html").read_text()
    assert table.with_suffix("").name in {path.stem for path in tmp_path.glob("report/figures/*.png")}


GOOD = "rolls:\n  title: Rolls\n  statement: Fair.\n  draw: kept_ratio.draw\n"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("rolls: [title", "while parsing a flow sequence"),
        (GOOD.replace("title", "titel"), "_read_entry() missing 1 required positional argument: 'title'"),
        (GOOD + "  setings: {}\n", "PaperFigure.__init__() got an unexpected keyword argument 'setings'"),
        (GOOD.replace("ratio.draw", "ratio.paint"), "module 'fedpan_exp.studies.kept_ratio.figure' has no attribute"),
        (GOOD + "  with: {layer: fc1}\n", "got an unexpected keyword argument 'layer'"),
        (GOOD + "  claims: [{claim: mean}]\n", "Claim.__init__() missing 2 required positional arguments"),
    ],
)
def test_a_mistake_in_a_file_of_claims_gets_one_line(text, mistake, tmp_path):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        list(read_claims(tmp_path / "mine.yaml"))
    assert str(caught.value).startswith("mine.yaml must have valid claims, got a mistake")
    assert mistake in str(caught.value)
    assert "\n" not in str(caught.value)
