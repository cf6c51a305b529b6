"""fork=RUN@2: another run, continued after a round that it kept."""

import base64
import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import fedpan_exp as fp
from fedpan_exp.federation import Round
from fedpan_exp.report.charts import AXES, chart_data
from fedpan_exp.sweeping.jobs import read_jobs
from fedpan_exp.system.errors import UserError

TINY = ("dataset=digits", "model.width=8", "fl_scene.K=6", "fl_scene.R=0.5", "fl_scene.E=1", "fl_scene.H=4", "ranks=1")


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    return fp.run(*TINY, "algorithm=scaffold", "checkpoint.keep=[1,2]", f"runs={runs}")


def settings(parent: fp.Result, *more: str) -> tuple[str, ...]:
    return (*TINY, "algorithm=scaffold", f"runs={parent.folder.parent}", f"fork={parent.folder.name}@2", *more)


def test_an_unchanged_fork_gives_the_weights_of_its_parent(parent):
    """The server's and the clients' control variates are taken over, and the draws are the same."""
    *_, last = fp.federate(*settings(parent))
    assert last.index == 4
    *_, straight = fp.federate(*TINY, "algorithm=scaffold")
    assert torch.equal(last.server.weights, straight.server.weights)


@pytest.mark.parametrize("memory", ["memory", "disk"])
def test_a_fork_is_a_run_of_its_own_that_begins_with_its_parents_rounds(parent, memory):
    child = fp.run(*settings(parent, "training.lr=0.2", f"fl_scene.client_memory={memory}", "rerun=true"))
    assert child.folder != parent.folder
    assert child.records["round"].tolist() == [1, 2, 3, 4]
    ours, theirs = child.records["train/loss"], parent.records["train/loss"]
    assert ours[:2].tolist() == theirs[:2].tolist()
    assert ours[2] != theirs[2]
    *_, last = fp.federate(*settings(parent, "training.lr=0.2"))
    assert child.weights["head.bias"].tolist() == last.server.weights[-10:].tolist()


def test_the_report_draws_the_branch(parent):
    """The line of a fork begins at the round in which it leaves that of its parent."""
    child = fp.run(*settings(parent, "training.lr=0.3"))
    runs = fp.load_runs(parent.folder.parent)
    chart = {run["name"]: run for run in chart_data(runs.assign(label=""), [], [])["runs"]}

    def curve(run: fp.Result) -> dict[str, list[float]]:
        columns = json.loads(gzip.decompress(base64.b64decode(chart[run.folder.name]["curve"])))
        return {name: np.cumsum(columns[name]).tolist() if name in AXES else columns[name] for name in columns}

    ours, theirs = curve(child), curve(parent)
    assert (ours["round"], theirs["round"]) == ([2, 3, 4], [1, 2, 3, 4])
    assert ours["train/loss"][0] == theirs["train/loss"][1]
    assert ours["samples"] == theirs["samples"][1:]
    assert ours["train/loss"][1] != theirs["train/loss"][2]
    alone = chart_data(runs.loc[[child.folder.name]].assign(label=""), [], [])["runs"][0]
    columns = json.loads(gzip.decompress(base64.b64decode(alone["curve"])))
    assert len(columns["round"]) == 4  # without its parent all of its rounds are drawn


def test_another_algorithm_starts_from_the_weights_alone(parent):
    first = next(fp.federate(*settings(parent, "algorithm=moon")))
    assert first.index == 3
    child = fp.run(*settings(parent, "algorithm=fedavg"))
    assert child.status == "done"


def test_another_number_of_clients_starts_from_the_weights_alone(parent):
    """Scaffold's server moves by the fraction of all clients that took part."""
    assert next(fp.federate(*settings(parent))).server.clients == 6
    assert next(fp.federate(*settings(parent, "fl_scene.K=9"))).server.clients == 9


@pytest.mark.parametrize("split", ["fl_scene.alpha=10", "fl_scene.partition=iid", "fl_scene.local_test=0.2", "seed=1"])
def test_another_split_starts_from_the_weights_alone(parent, split):
    """Client 3 has other samples, so Scaffold's control variate of the parent's client 3 is not its own."""
    same, other = fp.experiment(*settings(parent)), fp.experiment(*settings(parent, split))
    assert same.forked().has_state_of(same.algorithm, same.fl_scene, same.seed)
    assert not other.forked().has_state_of(other.algorithm, other.fl_scene, other.seed)


def forked_once(runs: Path, algorithm: str, *own: str) -> tuple[torch.Tensor, Round]:
    """The weights of a run after two rounds, and the next round of its fork with other settings."""
    common = (*TINY, f"algorithm={algorithm}", f"runs={runs}")
    folder = fp.run(*common, "fl_scene.H=2", "checkpoint.keep=[2]").folder
    weights = load_file(folder / "kept" / "0000002.safetensors")["weights"]
    return weights, next(fp.federate(*common, f"fork={folder.name}@2", *own))


@pytest.mark.parametrize("optimizer", ["adam", "yogi"])
def test_moments_of_another_optimizer_are_not_taken_over(tmp_path, optimizer):
    _, first = forked_once(tmp_path, "fedopt", f"algorithm.server_optimizer={optimizer}")
    assert first.server.state.keys() == {"exp_avg", "exp_avg_sq"} | ({"step"} if optimizer == "adam" else set())


def test_the_drift_of_feddyn_is_not_taken_over_with_another_alpha(tmp_path):
    """It is in units of 1 / alpha."""
    weights, first = forked_once(tmp_path, "feddyn", "algorithm.alpha=0.1")
    assert first.server.state["drift"].equal((first.update.weights - weights) * 0.5)
    _, first = forked_once(tmp_path, "feddyn")
    assert not first.server.state["drift"].equal((first.update.weights - weights) * 0.5)


def test_fedma_uses_the_weights_of_a_fork_and_begins_with_a_pass(parent):
    fedma = settings(parent, "algorithm=fedma", "fl_scene.H=8")
    with pytest.raises(UserError, match=r"^algorithm\.init must be common with a fork of another"):
        fp.experiment(*fedma)
    with pytest.raises(UserError, match=r"^fork must be RUN@ a multiple of 4 for algorithm=fedma, .*@2$"):
        fp.experiment(*fedma, "algorithm.init=common")


def test_the_path_of_the_parent_is_not_part_of_the_identity(parent):
    paths = (parent.folder.name, parent.folder, f"{parent.folder}/")  # a shell completes a folder with /
    [name] = {read_jobs(*settings(parent, f"fork={path}@2"))[0].name for path in paths}
    assert name != parent.folder.name


def test_what_cannot_be_forked_is_refused_in_one_line(parent, tmp_path):
    name = parent.folder.name
    for setting, message in {
        f"fork={name}@3": r"fork must name a round that the run kept, got 3, and it kept 1 and 2; run it with check",
        "fork=nothing@2": r"fork must name a run folder, or a run in runs=.*, got nothing",
        f"fork={name}": r"fork must be a run and a round from 1 on, as in RUN@20, got",
        f"fork={name}@0": r"fork must be a run and a round from 1 on, as in RUN@20, got .*@0$",
        "model.width=9": r"model.width must be 8, as in the run that is forked, got 9",
        "fl_scene.H=2": r"fl_scene.H must be above 2, the round of the fork, got 2",
        "checkpoint.keep=[0]": r"checkpoint.keep must be rounds from 1, got \[0\]",
    }.items():
        with pytest.raises(UserError, match=message):
            fp.experiment(*settings(parent, setting))


def test_a_damaged_checkpoint_is_refused(parent):
    kept = parent.folder / "kept" / "0000001.safetensors"
    content = kept.read_bytes()
    kept.write_bytes(content[:-1])
    with pytest.raises(UserError, match=r"fork must name an intact run, got .* is damaged"):
        next(fp.federate(*settings(parent, f"fork={parent.folder.name}@1")))
    kept.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("config.yaml", ": : [", "config.yaml is damaged"),
        ("config.yaml", "a: 1", "config.yaml is damaged"),
        ("metrics.jsonl", '{"round": 1}\n', "metrics.jsonl lacks records of the first 2 rounds"),
    ],
)
def test_a_damaged_parent_is_refused(parent, tmp_path, file, content, reason):
    damaged = tmp_path / parent.folder.name
    shutil.copytree(parent.folder, damaged)
    (damaged / file).write_text(content)
    with pytest.raises(UserError, match=rf"fork must name an intact run, got .* \({reason}\)"):
        fp.run(*settings(parent, f"runs={tmp_path}"))
