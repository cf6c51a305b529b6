"""Loggers: each log is read back with its own tools, and a failing logger does not fail the run."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from conftest import CommandResult
from fedpan_exp import dashboard, dashboard_pairs
from fedpan_exp.probes import PROBES
from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.system.errors import UserError
from fedpan_exp.tracking.record import Record
from fedpan_exp.tracking.wandb_settings import WandbSettings
from fedpan_exp.tracking.wandb_sync import sync, upload

SMALL = ("dataset=digits", "model.width=16", *(f"fl_scene.{s}" for s in ("K=5", "R=0.4", "E=1", "H=4")))
OFFLINE = ("logger=wandb", "logger.wandb.mode=offline", "logger.wandb.tags=[pans,test]")


def inspect(folder: Path) -> list[dict]:
    """Read all items of the run's offline W&B log."""
    (log,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    program = str(Path(sys.executable).with_name("wandb"))
    shown = subprocess.run([program, "leet", "inspect", "--json", str(log)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in shown.stdout.splitlines()]


def history(items: list[dict]) -> dict[int, dict]:
    """Map each round to its row in W&B."""
    rows: dict[int, dict] = {}
    for item in items:
        row = item.get("history", {}).get("item", {})
        if "train/loss" in row:
            assert row["round"] not in rows, "a round was logged twice"
            rows[row["round"]] = row
    return rows


def assert_complete(folder: Path) -> list[dict]:
    """Check that W&B has every metric of every round."""
    items = inspect(folder)
    logged = history(items)
    records = read_lines(folder / "metrics.jsonl")
    assert logged.keys() == {record["round"] for record in records}
    for record in records:
        row = logged[record["round"]]
        assert row["_step"] == record["round"]
        assert {name: row[name] for name in record} == pytest.approx(record)
    return items


def test_offline_wandb_has_the_whole_run(command):
    ended = command(*SMALL, *OFFLINE)
    assert ended.code == 0, ended.err
    (folder,) = ended.runs
    items = assert_complete(folder)
    run = next(item["run"] for item in items if "run" in item)
    assert run["run_id"] == folder.name.rsplit("-", 1)[-1]
    assert run["display_name"] == folder.name
    assert run["job_type"] == "federate"
    assert run["tags"] == ["pans", "test"]
    assert run["config"]["update"]["fl_scene/alpha"] == 0.1
    assert run["config"]["update"]["algorithm/name"] == "fedavg"
    other = command(*SMALL, *OFFLINE, "seed=1")
    (another,) = (path for path in other.runs if path != folder)
    groups = {next(item["run"] for item in inspect(path) if "run" in item)["run_group"] for path in (folder, another)}
    assert len(groups) == 1
    logged = {name for item in items for name in item.get("history", {}).get("item", {})}
    assert any(name.startswith("curves") for name in logged)
    assert any(name.startswith("partition") for name in logged)
    assert any(name.startswith("partition_table") for name in logged)
    summary = {name: v for item in items for name, v in item.get("summary", {}).get("update", {}).items()}
    assert summary["summary/last5_acc"] == read_json(folder / "summary.json")["summary/last5_acc"]
    assert max(item["history"]["item"].get("_step", 0) for item in items if "history" in item) == 4


def test_after_a_resume_wandb_has_all_rounds(command, monkeypatch):
    write = Record.write

    def write_then_fail(self: Record, round_idx: int, metrics: dict) -> None:
        write(self, round_idx, metrics)
        if round_idx == 3:
            raise RuntimeError("power cut")

    overrides = (*SMALL, *OFFLINE, "checkpoint.every=2")
    with monkeypatch.context() as patched:
        patched.setattr(Record, "write", write_then_fail)
        with pytest.raises(RuntimeError):
            command(*overrides)
    ended = command(*overrides)
    assert ended.code == 0, ended.err
    assert "resume    after round 2" in ended.out
    items = assert_complete(ended.runs[0])
    assert next(item["run"] for item in items if "run" in item)["tags"] == ["pans", "test"]


def environment(home: Path) -> dict[str, str]:
    """An environment without a W&B key or a netrc."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    return {**others, "HOME": str(home), "NETRC": str(home / "netrc")}


@pytest.mark.slow
def test_no_key_no_terminal_no_network(tmp_path):
    program = [sys.executable, "-m", "fedpan_exp", "algorithm=scaffold", "pan=mul", "pan.A=0.1", *SMALL]
    ended = subprocess.run(
        program,
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr
    line = "wandb     no W&B key found: logging offline; upload later with `python -m fedpan_exp.runs sync runs`"
    assert ended.stdout.count(line) == 1
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    items = assert_complete(folder)
    run = next(item["run"] for item in items if "run" in item)
    assert run["config"]["update"]["algorithm/name"] == "scaffold"
    assert run["run_group"] == run["config"]["update"]["setting"]
    logged = {name.split(".")[0] for item in items for name in item.get("history", {}).get("item", {})}
    assert {"curves", "partition", "partition_table"} <= logged


@pytest.mark.parametrize(
    ("variables", "settings", "mode"),
    [
        ({}, {}, "auto"),
        ({"WANDB_MODE": "offline"}, {}, "offline"),
        ({"WANDB_MODE": "dryrun"}, {}, "offline"),
        ({"WANDB_MODE": "disabled"}, {}, "disabled"),
        ({"WANDB_MODE": "online"}, {"mode": "offline"}, "offline"),
        ({"WANDB_DISABLED": "true"}, {"mode": "online"}, "disabled"),
        ({"WANDB_DISABLED": "false"}, {}, "auto"),
    ],
)
def test_wandbs_own_variables_are_respected(monkeypatch, variables, settings, mode):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert WandbSettings(**settings).effective_mode() == mode


def test_sync_uploads_each_offline_run_once(tmp_path, capsys):
    runs = [tmp_path / name for name in "abc"]
    for run in runs:
        (run / "wandb" / f"offline-run-{run.name}").mkdir(parents=True)
    uploaded: list[str] = []

    def record_upload(folder: Path) -> str:
        uploaded.append(folder.name)
        return "no network" if folder.name.endswith("b") and uploaded.count(folder.name) == 1 else ""

    assert sync(runs, record_upload, lambda: True) == 1
    shown = capsys.readouterr()
    assert "2 uploaded, 1 failed, 0 uploaded earlier" in shown.out
    assert "offline-run-b could not be uploaded (no network)" in shown.err
    assert sync(runs, record_upload, lambda: True) == 0
    assert sorted(uploaded) == ["offline-run-a", "offline-run-b", "offline-run-b", "offline-run-c"]
    assert sync(runs, record_upload, lambda: False) == 0  # nothing to upload: no key is needed


def fake_wandb(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A module wandb in the child processes, which does what the code says with its arguments."""
    (folder / "wandb").mkdir(parents=True)
    (folder / "wandb" / "__init__.py").touch()
    (folder / "wandb" / "__main__.py").write_text(f"import sys, time\nfrom pathlib import Path\n{code}\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_the_upload_is_wandb_sync_and_its_last_line_is_the_reason(tmp_path, monkeypatch, capsys):
    speak = "print('syncing', *sys.argv[1:])\nprint('wandb: ERROR no such project', file=sys.stderr)"
    fake_wandb(tmp_path / "fake", monkeypatch, f"{speak}\nsys.exit(sys.argv[1] != 'sync' or sys.argv[2][-1] == 'b')")
    for name in "ab":
        (tmp_path / name / "wandb" / f"offline-run-{name}").mkdir(parents=True)
    assert sync([tmp_path / "a", tmp_path / "b"], has_key=lambda: True) == 1
    shown = capsys.readouterr()
    assert "1 uploaded, 1 failed, 0 uploaded earlier" in shown.out
    (line,) = shown.err.splitlines()
    assert line.startswith("fedpan_exp: warning:")
    assert "offline-run-b could not be uploaded (wandb: ERROR no such project)" in line


def test_an_upload_that_does_not_end_is_given_up(tmp_path, monkeypatch):
    fake_wandb(tmp_path / "fake", monkeypatch, "time.sleep(60)")
    monkeypatch.setattr("fedpan_exp.tracking.wandb_sync.TIMEOUT_S", 1)
    assert upload(tmp_path) == "W&B has not answered for 1 s"


def test_uploads_run_at_the_same_time(tmp_path):
    together = threading.Barrier(4, timeout=30)

    def meet(folder: Path) -> str:
        together.wait()
        return ""

    for name in "abcd":
        (tmp_path / name / "wandb" / f"offline-run-{name}").mkdir(parents=True)
    assert sync([tmp_path / name for name in "abcd"], meet, lambda: True) == 0


def test_sync_without_a_key_is_refused(tmp_path):
    (tmp_path / "a" / "wandb" / "offline-run-a").mkdir(parents=True)
    with pytest.raises(UserError, match="uploading to W&B needs a key: run `wandb login`"):
        sync([tmp_path / "a"], has_key=lambda: False)


@pytest.mark.slow
def test_a_killed_wandb_process_costs_one_warning(tmp_path):
    program = [sys.executable, "-m", "fedpan_exp", *SMALL, "fl_scene.H=400", *OFFLINE]
    process = subprocess.Popen(program, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while not list(tmp_path.glob("runs/*/metrics.jsonl")):
        assert time.monotonic() < until
        time.sleep(0.01)
    for service in children(process.pid):
        os.kill(service, signal.SIGKILL)
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    assert err.count("\n") == 1, err
    assert err.startswith("fedpan_exp: warning: W&B failed (")
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert len(read_lines(folder / "metrics.jsonl")) == 400
    assert read_json(folder / "status.json")["status"] == "done"


def children(process: int) -> list[int]:
    pids = [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    services = [child for child in pids if "wandb" in Path(f"/proc/{child}/cmdline").read_text()]
    assert services, "W&B has no process of its own"
    return services


def test_csv_and_tensorboard_at_once(command):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    ended = command(*SMALL, "logger=[csv,tensorboard]", "eval_every=3")
    assert ended.code == 0, ended.err
    (folder,) = ended.runs
    records = read_lines(folder / "metrics.jsonl")
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{name: float(value) for name, value in row.items() if value} for row in rows] == records
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    for name in ("global/test_acc", "train/loss", "comm/up_bytes"):
        logged = {event.step: event.value for event in events.Scalars(name)}
        assert logged == pytest.approx({record["round"]: record[name] for record in records if name in record})


def test_tensorboard_leaves_out_what_is_no_number(command):
    ended = command("study=doctor", "dataset=digits", "model.width=8", "pan=after", "logger=tensorboard")
    assert (ended.code, ended.err) == (0, "")  # with the encoding after the ReLU there is no cost of a swap


@pytest.mark.parametrize("name", ["tensorboard", "trackio", "mlflow"])
def test_a_logger_without_its_package(command, monkeypatch, name):
    monkeypatch.setattr("fedpan_exp.tracking.logger.find_spec", lambda name: None)
    ended = command(*SMALL, f"logger={name}")
    assert ended.code == 1
    assert ended.err == f'fedpan_exp: logger={name} needs its package: pip install "fedpan_exp[{name}]"\n'
    assert not Path("runs").exists()


@pytest.fixture
def interrupted(command, monkeypatch):
    """Call the command, fail after round 3, and call it again."""
    write = Record.write

    def write_then_fail(self: Record, round_idx: int, metrics: dict) -> None:
        write(self, round_idx, metrics)
        if round_idx == 3:
            raise RuntimeError("power cut")

    def call(*overrides: str) -> CommandResult:
        with monkeypatch.context() as patched:
            patched.setattr(Record, "write", write_then_fail)
            with pytest.raises(RuntimeError):
                command(*overrides, "checkpoint.every=2")
        return command(*overrides, "checkpoint.every=2")

    return call


def test_trackio_has_every_round_once_also_after_a_resume(interrupted):
    ended = interrupted(*SMALL, "logger=trackio")
    assert ended.code == 0, ended.err
    assert not ended.err
    assert "* " not in ended.out  # how Trackio's own messages begin
    (folder,) = ended.runs
    from trackio.sqlite_storage import SQLiteStorage

    assert SQLiteStorage.get_runs("fedpan_exp").count(folder.name) == 1
    logged = SQLiteStorage.get_logs("fedpan_exp", folder.name)
    records = read_lines(folder / "metrics.jsonl")
    rounds = {row["step"]: row for row in logged if "train/loss" in row}
    assert len(rounds) == sum("train/loss" in row for row in logged) == len(records)
    for record in records:
        assert {name: rounds[record["round"]][name] for name in record} == pytest.approx(record)
    last = {name for row in logged for name in row}
    assert {"curves", "partition", "summary/last5_acc", "status"} <= last
    config = SQLiteStorage.get_run_config("fedpan_exp", folder.name)
    assert config["fl_scene/alpha"] == 0.1
    assert config["_Group"].startswith("federate-digits-mlp-fedavg-mul0.1-alpha0.1")


@pytest.mark.slow
def test_mlflow_has_every_round_once_also_after_a_resume(interrupted, monkeypatch):
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    ended = interrupted(*SMALL, "logger=mlflow")
    assert ended.code == 0, ended.err
    assert not ended.err
    (folder,) = ended.runs
    client = MlflowClient(f"sqlite:///{Path('runs').resolve()}/mlflow.db")
    experiment = client.get_experiment_by_name("fedpan_exp")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == (folder.name, "FINISHED")
    assert run.data.params["fl_scene/alpha"] == "0.1"
    assert run.data.params["algorithm/name"] == "fedavg"
    for name in ("train/loss", "global/test_acc"):
        logged = {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, name)}
        assert logged == pytest.approx({r["round"]: r[name] for r in read_lines(folder / "metrics.jsonl")})
    assert run.data.metrics["summary/last5_acc"] == read_json(folder / "summary.json")["summary/last5_acc"]
    assert {item.path for item in client.list_artifacts(run.info.run_id)} >= {"curves.png", "partition.png"}


def test_a_server_that_cannot_be_reached_costs_one_warning(command, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    ended = command(*SMALL, "logger=mlflow")
    assert ended.code == 0
    assert ended.err.count("\n") == 1
    assert ended.err.startswith("fedpan_exp: warning: MLflow failed (")
    assert read_json(ended.runs[0] / "status.json")["status"] == "done"


def test_the_dashboard_uses_only_metrics_that_runs_write(command, monkeypatch, capsys):
    probes = ("probes=[divergence,cosine,gradient_variance,matching,matching_gap,barrier,swap_cost,preference]",)
    ended = command(*SMALL, "target_acc=0.01", *probes)
    (folder,) = ended.runs
    records = read_lines(folder / "metrics.jsonl")
    written = {name for record in records for name in record} | read_json(folder / "summary.json").keys()
    assert dashboard.PROBES.keys() == PROBES.keys()
    for probe in dashboard.PROBES:
        assert any(name.startswith(f"{probe}/") for name in written)
    written |= {*dashboard_pairs.CURVES, dashboard_pairs.GAIN}
    settings = {"fl_scene/alpha", "fl_scene/K", "fl_scene/E", "pan/A", "pan/T", "algorithm/name", "pan/on"}

    monkeypatch.setattr("sys.argv", ["dashboard", "--dry-run"])
    dashboard.main()
    assert "29 panels, in dashboard.json" in capsys.readouterr().out
    text = Path("dashboard.json").read_text()
    names = {name for name in text.split('"') if "/" in name and " " not in name and "\n" not in name}
    assert {name for name in names if name[0] == "^"} == {f"^{probe}/" for probe in PROBES}
    names = {name for name in names if name[0] != "^"}
    assert "partition_table" in text
    metrics = {name for name in names if not name.endswith(".value")}
    assert {name.removeprefix("summary:") for name in metrics} <= written
    assert len(metrics) >= 8
    assert {name.removeprefix("config:").removesuffix(".value") for name in names - metrics} == settings


@pytest.mark.slow
def test_pairs_are_logged_as_on_minus_off(command, monkeypatch, capsys):
    for seed in (0, 1):
        for pan in ("off", "mul"):
            command(*SMALL, f"seed={seed}", f"pan={pan}", "logger=none")
    command(*SMALL, "seed=2", "pan=mul", "logger=none")  # has no pair
    monkeypatch.setattr("sys.argv", ["dashboard", "--dry-run", "--pairs", "runs"])
    for _ in range(2):  # the second time replaces the first
        dashboard.main()
        assert "2 pairs of PANs on and off logged from runs" in capsys.readouterr().out
    pairs = dashboard_pairs.find_pairs(Path("runs"))
    assert len(list(Path("runs").glob("*/pairs/wandb/offline-run-*"))) == len(pairs) == 2
    groups = set()
    for pair in pairs:
        on, off = (read_lines(folder / "metrics.jsonl") for folder in (pair.on, pair.off))
        items = inspect(pair.on / "pairs")
        rows = [
            item["history"]["item"] for item in items if "paired/test_acc" in item.get("history", {}).get("item", {})
        ]
        assert [row["paired/test_acc"] for row in rows] == pytest.approx(
            [100 * (a["global/test_acc"] - b["global/test_acc"]) for a, b in zip(on, off, strict=True)]
        )
        summary = {name: v for item in items for name, v in item.get("summary", {}).get("update", {}).items()}
        assert summary["paired/last5_acc"] == pytest.approx(pair.gain)
        run = next(item["run"] for item in items if "run" in item)
        assert run["job_type"] == "pair"
        groups.add(run["run_group"])
    assert len(groups) == 1  # the seeds of one setting
    uploaded: list[Path] = []
    sync([pair.on for pair in pairs], lambda folder: uploaded.append(folder) or "", lambda: True)
    assert len(uploaded) == 2


def test_a_dashboard_without_a_key(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    for args, line in {("--entity", "team"): "no W&B key found", (): "--entity must be a W&B user"}.items():
        monkeypatch.setattr("sys.argv", ["dashboard", *args])
        with pytest.raises(SystemExit):
            dashboard.main()
        assert capsys.readouterr().err.startswith(f"fedpan_exp: {line}")
