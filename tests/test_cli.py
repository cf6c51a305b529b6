"""The command line: complete run folders, paired runs, one line per error."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from safetensors.torch import load_file
from torch import Tensor

from conftest import WILD
from fedpan_exp.data import Clients
from fedpan_exp.system import console
from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.system.errors import listed
from fedpan_exp.system.paths import CONF, SWEEPS
from fedpan_exp.training import LocalTrainer

SMALL = ("scale=smoke", "model.width=16", "model.depth=2")


def test_a_run_writes_a_complete_folder(command):
    ended = command(*SMALL, "fl_scene.H=3")
    assert ended.code == 0, ended.err
    (folder,) = ended.runs
    assert folder.name.startswith("federate-digits-mlp-fedavg-mul0.1-alpha0.1-seed0-")
    files = {
        "config.yaml",
        "metrics.jsonl",
        "summary.json",
        "status.json",
        "weights.safetensors",
        "curves.png",
        "partition.csv",
        "partition.png",
    }
    assert {path.name for path in folder.iterdir()} == {*files, ".lock"}

    records = read_lines(folder / "metrics.jsonl")
    assert [record["round"] for record in records] == [1, 2, 3]
    names = {
        "global/test_acc",
        "global/test_loss",
        "train/loss",
        "comm/up_bytes",
        "comm/down_bytes",
        "time/round_s",
    }
    assert all(names <= record.keys() for record in records)
    summary = read_json(folder / "summary.json")
    accuracies = [record["global/test_acc"] for record in records]
    assert summary["summary/best_acc"] == max(accuracies)
    assert summary["summary/last5_acc"] == pytest.approx(sum(accuracies) / 3)
    status = read_json(folder / "status.json")
    assert status["status"] == "done"
    assert status["seed"] == 0
    assert status["versions"]["torch"]
    saved = yaml.safe_load((folder / "config.yaml").read_text())
    assert saved["training"]["lr"] == 0.05  # resolved
    assert saved["model"]["width"] == 16
    assert load_file(folder / "weights.safetensors")["body.fc1.weight"].shape == (16, 64)
    assert "round 3/3" in ended.out
    assert str(folder) in ended.out


def test_a_finished_run_is_repeated_only_with_rerun(command):
    first = command(*SMALL)
    before = (first.runs[0] / "metrics.jsonl").read_text()
    same = ("dataset.root=elsewhere", "fabric.accelerator=cpu", "model.lr=0.3", "training.lr=0.05")
    again = command(*SMALL, *same)  # none of these changes the identity of the run
    assert again.code == 0
    assert "already done; use rerun=true to run it again" in again.out
    assert (first.runs[0] / "metrics.jsonl").read_text() == before
    forced = command(*SMALL, "rerun=true")
    assert len(forced.runs) == 1
    assert "round 2/2" in forced.out
    timeless = [{k: v for k, v in json.loads(line).items() if "time/" not in k} for line in before.splitlines()]
    assert [
        {k: v for k, v in record.items() if "time/" not in k} for record in read_lines(forced.runs[0] / "metrics.jsonl")
    ] == timeless


def results(folder: Path) -> tuple[list[dict], dict]:
    records = [{k: v for k, v in r.items() if "time/" not in k} for r in read_lines(folder / "metrics.jsonl")]
    return records, load_file(folder / "weights.safetensors")


def test_amplitude_zero_is_off_bit_for_bit(command):
    ends = []
    for overrides in (("pan=off",), ("pan=add", "pan.A=0"), ("pan=mul", "pan.A=0", "pan.T=7")):
        ended = command(*SMALL, *overrides, "rerun=true")
        assert ended.code == 0, ended.err
        assert len(ended.runs) == 1  # one identity: PANs off
        ends.append(results(ended.runs[0]))
    for records, weights in ends[1:]:
        assert records == ends[0][0]
        assert all(weights[name].equal(tensor) for name, tensor in ends[0][1].items())


def test_pans_on_and_off_are_paired(command, monkeypatch):
    """The initial weights, clients and batches are the same; the results differ."""
    batches, fit = Clients.batches, LocalTrainer.fit
    starts: list[Tensor] = []
    seen: list[tuple] = []

    def recorded_batches(self, k, round_idx, *rest, **more):
        for x, y in batches(self, k, round_idx, *rest, **more):
            seen.append((k, round_idx, x.sum().item(), y.tolist()))
            yield x, y

    def recorded_fit(self, *rest, **more):
        starts.append(self.net.weights.clone())
        return fit(self, *rest, **more)

    monkeypatch.setattr(Clients, "batches", recorded_batches)
    monkeypatch.setattr(LocalTrainer, "fit", recorded_fit)
    ends = [results(command(*SMALL, pan).runs[-1])[1] for pan in ("pan=off", "pan=mul")]
    half = len(seen) // 2
    assert half > 5
    assert seen[:half] == seen[half:]
    assert starts[0].equal(starts[len(starts) // 2])
    assert not ends[0]["head.weight"].equal(ends[1]["head.weight"])


BAD = [
    ("pan.A=-1", "pan.A must be at least 0, got -1.0"),
    ("pan.A=abc", "pan.A must be a number, got abc"),
    ("pan.Z=1", "pan.Z is not a setting; pan has mode, A, T, encoding, placement, per_client, own_share, order and n_fix"),
    ("pan.mode=sub", "pan.mode must be off, add, mul, bias_init, rates, frozen_bias, after, slope, w_asym or sigma_asym, got sub"),
    ("pan=off pan.A=0.1", "pan.A must be 0 with pan=off (or choose pan=add, pan=mul), got 0.1"),
    ("fl_scene.K=0", "fl_scene.K must be at least 1, got 0"),
    ("fl_scene.R=2", "fl_scene.R must be in (0, 1], got 2.0"),
    ("fl_scene.E=0", "fl_scene.E must be above 0, got 0.0"),
    ("fl_scene.H=1.5", "fl_scene.H must be a whole number, got 1.5"),
    ("fl_scene.steps=0", "fl_scene.steps must be at least 1, or null, got 0"),
    ("fl_scene.alpha=0", "fl_scene.alpha must be in (0, 1e6], got 0.0"),
    ("fl_scene.K=1000", "fl_scene.K must be at most 287 (1,437 samples, at least fl_scene.min_samples=5 per client), got 1000"),
    ("fl_scene.partition=natural", "fl_scene.partition must be other than natural for a dataset without user ids"),
    ("fl_scene.partition=shard", "fl_scene.partition must be dirichlet, dirichlet_class, dirichlet_balanced, iid, shards, dirichlet_virtual, natural or file, got shard; did you mean shards?"),
    ("algorithm=fedpox", f"algorithm must be {listed(sorted(path.stem for path in CONF.glob('algorithm/*.yaml')), 'or')}, got fedpox; did you mean fedprox?"),
    ("dataset=mnst", "dataset must be cifar10, cifar100, cinic10, digits, fashion_mnist, femnist, folder, gtsrb, hf, mnist, npz or svhn, got mnst; did you mean mnist?"),
    ("seeds=1", "seeds is not a setting; did you mean seed?"),
    ("pan=null", "a group must have one of its options, got pan=null"),
    ("logger=[]", "logger must be given, got nothing"),
    ("+pan.Z=1", "pan.Z is not a setting"),
    ("seed=0,1", "a single run must have one value per setting, got seed=0,1; -m runs a sweep over several"),
    ("seed=range(3)", "a single run must have one value per setting, got seed=range(3); -m runs a sweep over several"),
    ("+sed=1", "sed is not a setting; did you mean seed?"),
    ("eval_every=inf", "eval_every must be finite, got inf"),
    ("probes=divergence", "probes must be a list, as in probes=[divergence], got divergence"),
    ("plan=maybe", "plan must be true or false, got maybe"),
    ("seed=null", "seed must be a value, got null"),
    ("training=3", "training must be set by its parts, as in training.lr=0.1, got 3"),
    ("runs=", "runs must be a folder, as in runs=runs, got nothing"),
    ("training.lr=inf", "training.lr must be finite, got inf"),
    ("training.weight_decay=nan", "training.weight_decay must be finite, got nan"),
    ("pan.A=inf", "pan.A must be finite, got inf"),
    ("dataset.classes=5", "dataset.classes must be at least 10, the number of classes in digits, got 5"),
    ("dataset.shape=[1,-8,8]", "dataset.shape must be channels, height, width, got [1, -8, 8]"),
    ("fabric.precision=16", "fabric.precision must be 32-true, 64-true, bf16-mixed, bf16-true or 16-mixed, got 16"),
    ("fabric.precision=16-mixed", "fabric.precision must be bf16-mixed where there is no CUDA GPU, got 16-mixed"),
    ("pan.A", "cannot read 'pan.A'; settings are written name=value, as in pan.A=0.1"),
    ("model=vgg11", "model=vgg11 halves the image 5 times and needs at least 32 pixels per side, got 8x8; choose model=mlp, vgg9 or resnet20, or a dataset of larger images"),
    ("model=resnet20 model.norm=gn7", "model.norm must be gn<groups> with groups dividing the width 64, got gn7"),
    ("model=vgg9 model.norm=ln", "model.norm must be none, bn or gn<groups> (gn1, gn8, ...), got ln"),
    ("model=resnet20 fl_scene.B=1", "fl_scene.min_samples (less fl_scene.local_test) and fl_scene.B must be at least 2 for a network with BatchNorm, got 10 and 1"),
    ("algorithm=fedprox algorithm.mu=-1", "algorithm.mu must be at least 0, got -1.0"),
    ("algorithm=fedprox algorithm.variant=theirs", "algorithm.variant must be canonical or authors, got theirs; did you mean authors?"),
    ("algorithm=fedopt algorithm.server_lr=0", "algorithm.server_lr must be above 0, got 0.0"),
    ("algorithm=fedopt algorithm.server_optimizer=adm", "algorithm.server_optimizer must be sgd, adam or yogi, got adm; did you mean adam?"),
    ("algorithm=scaffold algorithm.server_lr=0", "algorithm.server_lr must be above 0, got 0.0"),
    ("algorithm=moon algorithm.mu=-1", "algorithm.mu must be at least 0, got -1.0"),
    ("algorithm=moon algorithm.temperature=0", "algorithm.temperature must be above 0, got 0.0"),
    ("algorithm=feddyn algorithm.alpha=0", "algorithm.alpha must be above 0, got 0.0"),
    ("algorithm=feddyn algorithm.evaluate=best", "algorithm.evaluate must be server or mean, got best"),
    ("algorithm=fedrs algorithm.alpha=1.5", "algorithm.alpha must be in [0, 1], got 1.5"),
    ("algorithm=fedphp algorithm.mu=1", "algorithm.mu must be in [0, 1), got 1.0"),
    ("algorithm=fedphp algorithm.distillation=2", "algorithm.distillation must be in [0, 1], got 2.0"),
    ("algorithm=fedphp fl_scene.local_test=0", "fl_scene.local_test must be above 0 to test personal models (algorithm=fedphp), got 0.0"),
    ("dataset.samples=0", "dataset.samples must be at least 1, or null for all, got 0"),
    ("dataset.samples=2000", "dataset.samples must be at most 1,437, the number of images, or null, got 2000"),
    ("training.lr=0", "training.lr must be above 0, got 0.0"),
    ("pan.per_client=own probes=[matching]", "probes must be divergence or cosine where clients have encodings of their own (pan.per_client), got ['matching']"),
    ("study=matching pan.per_client=own", "pan.per_client must be shared with study=matching, which evaluates both models with the same encodings, got own"),
    ("sweeps=typo", f"sweeps must be {listed(sorted(path.stem for path in SWEEPS.glob('*.yaml')), 'or')}, got typo"),
    ("runs=/proc/nowhere", "runs must be a folder that can be written, got /proc/nowhere (No such file or directory)"),
    ("dataset=mnist dataset.root=/proc/nowhere", "dataset.root must be a folder that can be written, got /proc/nowhere (No such file or directory)"),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "line"), BAD)
def test_an_invalid_setting_prints_one_line_and_writes_nothing(command, overrides, line):
    ended = command("dataset=digits", *overrides.split())
    assert ended.code == 1
    assert ended.err == f"fedpan_exp: {line}\n"
    assert not list(Path.cwd().iterdir())


def test_an_unreadable_data_file(command):
    raw = Path("data/MNIST/raw")
    raw.mkdir(parents=True)
    for name in (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ):
        (raw / name).write_bytes(b"\0\0\x08\x01\0\0\0\x09cut")
    ended = command()
    assert ended.code == 1
    assert ended.err == (
        "fedpan_exp: data/MNIST/raw/train-labels-idx1-ubyte is cut off: 3 of 9 bytes; replace it or delete it to "
        "download it again\n"
    )
    assert not Path("runs").exists()


def test_a_diverged_run_keeps_its_records(command):
    ended = command(*SMALL, *WILD)
    assert ended.code == 1
    assert ended.err.startswith("fedpan_exp: diverged in round ")
    assert "training.clip" in ended.err
    (folder,) = ended.runs
    status = read_json(folder / "status.json")
    assert status["status"] == "diverged"
    assert "diverged in round" in status["reason"]
    assert len(read_lines(folder / "metrics.jsonl")) > 0
    assert (folder / "curves.png").exists()
    again = command(*SMALL, *WILD)
    assert again.code == 1
    assert "already diverged" in again.out
    assert again.err == ended.err


def test_an_encoding_without_effect_gives_one_warning(command):
    ended = command(*SMALL, "pan.T=8", "fl_scene.H=1")
    assert ended.code == 0
    assert ended.err == (
        "fedpan_exp: warning: pan.A=0.1, but the position encoding has no effect on fc1 fc2 (T=8 makes every sine 0 "
        "at width 16)\n"
    )


def test_resnet_accepts_small_grey_images(command):
    ended = command("scale=smoke", "model=resnet20", "model.width=4", "fl_scene.H=1")
    assert ended.code == 0, ended.err


def test_a_sweep_continues_after_a_failed_job(command):
    ended = command("-m", *SMALL, *WILD, "training.lr=1,0.001")  # the last lr wins
    assert ended.code == 1
    assert ended.err.startswith("fedpan_exp: training.lr=1: diverged in round")
    assert sorted(read_json(folder / "status.json")["status"] for folder in ended.runs) == ["diverged", "done"]


def test_the_partition_study_writes_a_plot_and_a_table(command):
    ended = command("study=partition", "dataset=digits", "fl_scene.K=12")
    assert ended.code == 0, ended.err
    (folder,) = ended.runs
    header, *rows = (folder / "partition.csv").read_text().splitlines()
    assert header.startswith("client,samples,label_0")
    assert sum(int(row.split(",")[1]) for row in rows) == 1437
    assert len(rows) == 12
    assert (folder / "partition.png").read_bytes().startswith(b"\x89PNG")
    same = command("study=partition", "dataset=digits", "fl_scene.K=12", "pan=off", "model=vgg9")
    assert "already done" in same.out


def test_help_shows_examples_and_groups(command):
    ended = command("--help")
    assert ended.code == 0
    for text in ("python -m fedpan_exp", "fl_scene", "* mul", "vgg9", "study=partition", "--cfg job"):
        assert text in ended.out
    assert ended.out.count("  python -m fedpan_exp") >= 5


def test_a_terminal_shows_a_progress_bar_with_the_state_of_the_work(monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr(console, "console", terminal)
    with console.progress_bar("train", 3) as progress:
        for k in progress.track(range(3)):
            progress.describe(f"round {k}/3")
    assert "round 2/3" in terminal.file.getvalue()


def test_it_runs_as_a_module_and_as_a_script(tmp_path):
    script = Path(sys.executable).with_name("fedpan-exp")
    for start in ([sys.executable, "-m", "fedpan_exp"], [str(script)]):
        ended = subprocess.run(
            [*start, *SMALL, "fl_scene.H=1", "pan.A=-1"], cwd=tmp_path, capture_output=True, text=True
        )
        assert ended.returncode == 1
        assert ended.stderr == "fedpan_exp: pan.A must be at least 0, got -1.0\n"
        assert not list(tmp_path.iterdir())


def chosen(out: str) -> list[str]:
    """The lines that show which settings a group or a sweep chose, one per run."""
    return [line.removeprefix("  chosen    ") for line in out.splitlines() if line.startswith("  chosen ")]


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (("algorithm=scaffold", "dataset=digits"), "training.momentum=0 by algorithm=scaffold"),
        (("dataset=cifar10",), "model=vgg11 by dataset=cifar10"),
        (
            ("dataset=cifar10", "algorithm=scaffold"),
            "training.momentum=0 by algorithm=scaffold   model=vgg11 by dataset=cifar10",
        ),
        (("dataset=femnist",), "fl_scene=natural by dataset=femnist"),
        (
            ("scale=smoke", "fl_scene.E=3"),
            "dataset=digits fl_scene.K=10 fl_scene.R=0.5 fl_scene.H=2 fl_scene.B=16 training.warmup=none by scale=smoke",
        ),
        (("scale=laptop", "sweeps=alpha", "hydra.mode=RUN"), "fl_scene.H=50 fl_scene.E=2 by scale=laptop"),
        (("sweeps=alpha", "hydra.mode=RUN"), "fl_scene.H=200 by sweeps=alpha"),
        (
            ("fidelity=authors", "dataset=cifar10", "model=vgg11", "training.clip=1"),
            "pan.placement=authors model.lr=0.03 training.weight_decay=1e-05 training.warmup=rounds "
            "fl_scene.local_test=0.2 fl_scene.small_clients=drop eval_every=0.05 by fidelity=authors",
        ),
    ],
)
def test_a_run_shows_which_group_chose_a_setting(command, overrides, line):
    ended = command("study=doctor", *overrides)
    assert ended.code == 0, ended.err
    assert chosen(ended.out) == [line]


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("dataset=cifar10", "model=vgg9"),
        ("algorithm=scaffold", "training.momentum=0"),
        ("algorithm=scaffold", "training={momentum:0.0}"),
        ("dataset=mnist", "fl_scene=cross_silo", "model.lr=0.1", "logger=[csv,tensorboard]"),
    ],
)
def test_a_run_shows_no_choice_that_the_user_made(command, overrides):
    ended = command("study=doctor", *overrides)
    assert ended.code == 0, ended.err
    assert chosen(ended.out) == []


def test_a_sweep_shows_once_what_it_chose_and_what_groups_chose_for_some_jobs(command):
    """The settings that differ between jobs are in the lines of the jobs."""
    ended = command("study=doctor", "sweeps=alpha", "dataset=digits,cifar10", "fl_scene.alpha=1")
    assert ended.code == 0, ended.err
    assert chosen(ended.out) == ["fl_scene.H=200 by sweeps=alpha   model=vgg11 by dataset=cifar10"]
    assert "  pan=mul" in ended.out
    typed = command("-m", "study=doctor", "dataset=digits", "pan=off,add")
    assert typed.code == 0, typed.err
    assert chosen(typed.out) == []


def test_a_study_shows_the_settings_it_chose(command):
    probes = "probes=[divergence,gradient_variance] by study=divergence"
    ended = command("study=divergence", "dataset=digits", *SMALL[1:], "fl_scene.H=1", "fl_scene.E=1", "fl_scene.K=10")
    assert ended.code == 0, ended.err
    assert chosen(ended.out) == [probes]


def test_a_finished_run_shows_the_target_that_it_had(command):
    for target in (0.015, 0.9):  # at the first test, and none that counts: the run is finished
        shown = command("dataset=digits", "model.width=16", "fl_scene.K=5", "fl_scene.H=1", f"target_acc={target}")
        assert re.search(r"rounds to an accuracy of 1\.5% +1 ", shown.out), shown.err
