"""Checkpoints restore every kind of state, detect damage, and truncate the records."""

import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from processes import SMALL, child, ended, outcome, run_folder

from conftest import CommandResult
from fedpan_exp.federation.checkpoint import _digest_of
from fedpan_exp.system.atomic_io import read_json, read_lines
from fedpan_exp.tracking.record import Record


def crash(folder: Path, after: int, *overrides: str) -> None:
    """Run the command until it crashes after a round."""

    def fail_after() -> None:
        write = Record.write

        def write_then_fail(self: Record, round_idx: int, metrics: dict) -> None:
            write(self, round_idx, metrics)
            if round_idx == after:
                raise RuntimeError("power failure")

        Record.write = write_then_fail

    assert ended(child(folder, *overrides, prepare=fail_after)) == 1
    status = read_json(run_folder(folder) / "status.json")
    assert (status["status"], status["reason"]) == ("failed", "power failure")


@pytest.fixture(scope="module")
def crashed_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    @cache
    def run(after: int, *overrides: str) -> Path:
        folder = tmp_path_factory.mktemp("crashed")
        crash(folder, after, *overrides)
        return folder

    return run


@pytest.fixture
def crashed_run(command, crashed_once) -> Callable[..., Path]:
    """Return the folder of a run that crashed after a round: a copy, or the run of this folder crashed again."""

    def call(*overrides: str, after: int = 7) -> Path:
        if Path("runs").exists():
            crash(Path(), after, *overrides)
        else:
            shutil.copytree(crashed_once(after, *overrides) / "runs", "runs")
        return run_folder(Path())

    return call


OVERRIDES = (*SMALL, "algorithm=scaffold", "checkpoint.every=2")


@pytest.fixture
def resume_and_compare(command, straight) -> Callable[..., CommandResult]:
    """Resume the run of this folder; it must give the numbers of one that did not crash."""

    def call(*overrides: str) -> CommandResult:
        resumed = command(*overrides)
        assert resumed.code == 0, resumed.err
        numbers = outcome(Path())
        assert [record["round"] for record in numbers[1]] == list(range(1, 13))
        assert numbers == outcome(straight(*overrides))
        return resumed

    return call


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ("algorithm=fedopt", "algorithm.server_optimizer=adam"),
        ("algorithm=fedopt", "algorithm.server_optimizer=yogi"),
        ("model=resnet20", "model.norm=bn", "model.width=4"),
        ("algorithm=feddf", "fl_scene.reserve=0.1", "algorithm.steps=5"),
        ("algorithm=fed2", "model.width=30", "model.groups=10"),
        ("training.warmup=rounds", "eval_every=5", "fl_scene.local_test=0.2"),
    ],
    ids=" ".join,
)
def test_every_kind_of_state_is_restored(resume_and_compare, crashed_run, overrides):
    overrides = (*SMALL, *overrides, "checkpoint.every=3")
    crashed_run(*overrides)
    assert "resume    after round 6" in resume_and_compare(*overrides).out


def manifests(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoint").glob("*.json"))


def test_the_two_newest_checkpoints_are_kept(crashed_run):
    folder = crashed_run(*OVERRIDES)
    assert [json.loads(path.read_text())["round"] for path in manifests(folder)] == [4, 6]
    named = {file for path in manifests(folder) for file in json.loads(path.read_text())["files"]}
    tensors = {str(path.relative_to(folder / "checkpoint")) for path in (folder / "checkpoint").rglob("*.safetensors")}
    assert tensors == named


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda newest: flip(newest), "it is damaged"),
        (lambda newest: flip(newest.with_suffix(".safetensors")), "0000006.safetensors is damaged"),
        (lambda newest: os.truncate(newest, 40), "it is damaged"),
        (lambda newest: os.truncate(newest.with_suffix(".safetensors"), 1000), "0000006.safetensors is damaged"),
        (lambda newest: newest.with_suffix(".safetensors").unlink(), "No such file"),
        (lambda newest: newest.write_text("[]"), "it is damaged"),
    ],
)
def test_a_damaged_checkpoint_is_ignored(resume_and_compare, crashed_run, damage, reason):
    folder = crashed_run(*OVERRIDES)
    damage(manifests(folder)[-1])
    resumed = resume_and_compare(*OVERRIDES)
    assert "resume    after round 4, from its checkpoint" in resumed.out
    assert f"0000006.json: {reason}" in resumed.err


def test_if_both_checkpoints_are_damaged_the_run_starts_over(resume_and_compare, crashed_run):
    folder = crashed_run(*OVERRIDES)
    for path in manifests(folder):
        flip(path)
    assert "resume" not in resume_and_compare(*OVERRIDES).out


def test_a_checkpoint_half_written_by_a_crash_is_not_used(resume_and_compare, crashed_run):
    folder = crashed_run(*OVERRIDES)
    newest = manifests(folder)[-1]
    (newest.parent / ".0000008.77.json").write_bytes(newest.read_bytes())  # the manifest was not renamed yet
    resumed = resume_and_compare(*OVERRIDES)
    assert "resume    after round 6, from its checkpoint" in resumed.out
    assert "ignoring the checkpoint" not in resumed.err


def sign(path: Path, content: dict) -> None:
    """Write a manifest with a valid digest, as an attacker could."""
    content.pop("digest")
    path.write_text(json.dumps({**content, "digest": _digest_of(content)}))


def test_a_checkpoint_that_names_files_outside_its_folder_is_ignored(resume_and_compare, crashed_run):
    folder = crashed_run(*OVERRIDES)
    precious = Path("precious.safetensors")
    precious.write_bytes((next((folder / "checkpoint/clients").iterdir())).read_bytes())
    newest = manifests(folder)[-1]
    content = json.loads(newest.read_text())
    name = f"../../../../{precious}"
    content["clients"]["0"] = name
    content["files"][f"clients/{name}"] = "0" * 32
    sign(newest, content)
    resumed = resume_and_compare(*OVERRIDES)
    assert f"0000006.json: it names {name}, which does not belong to it" in resumed.err
    assert precious.exists()


def test_a_checkpoint_of_another_run_is_ignored(resume_and_compare, crashed_run):
    folder = crashed_run(*OVERRIDES)
    other = Path(f"{str(folder)[:-8]}00000000")
    for path in manifests(folder):
        content = json.loads(path.read_text())
        content["run"] = other.name
        sign(path, content)
    resumed = resume_and_compare(*OVERRIDES)
    assert f": it belongs to {other.name}" in resumed.err


def test_records_after_the_checkpoint_are_truncated(resume_and_compare, crashed_run):
    folder = crashed_run(*OVERRIDES)
    records = folder / "metrics.jsonl"
    assert len(read_lines(records)) == 7
    with records.open("a") as file:
        file.write('{"round": 8, "train/lo')  # an incomplete line, as a crash leaves it
    assert "resume    after round 6" in resume_and_compare(*OVERRIDES).out


def test_a_checkpoint_with_missing_records_is_ignored(resume_and_compare, crashed_run):
    folder = crashed_run(*OVERRIDES)
    records = folder / "metrics.jsonl"
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join(lines[:5]))
    resumed = resume_and_compare(*OVERRIDES)
    assert ": records that belong to it are missing" in resumed.err
    assert "resume    after round 4" in resumed.out


@pytest.mark.slow
@pytest.mark.parametrize("client_memory", [pytest.param("memory", marks=pytest.mark.slow), "disk"])
def test_a_second_crash_before_the_next_checkpoint(resume_and_compare, crashed_run, client_memory):
    """The checkpoint it resumed from is still there, and so is the one before."""
    overrides = (*OVERRIDES, f"fl_scene.client_memory={client_memory}", "checkpoint.every=4")
    folder = crashed_run(*overrides, after=9)
    for _ in range(2):
        crashed_run(*overrides, after=10)
        assert [json.loads(path.read_text())["round"] for path in manifests(folder)] == [4, 8]
    resumed = resume_and_compare(*overrides)
    assert "ignoring the checkpoint" not in resumed.err
    assert "resume    after round 8" in resumed.out


def test_damaged_checkpoints_do_not_block_new_ones(resume_and_compare, crashed_run):
    folder = crashed_run(*OVERRIDES, after=11)
    for path in manifests(folder):
        flip(path.with_suffix(".safetensors"))
    crashed_run(*OVERRIDES, after=9)  # starts over: rounds 2 to 8 come before the damaged 8 and 10
    assert [json.loads(path.read_text())["round"] for path in manifests(folder)] == [6, 8]
    resumed = resume_and_compare(*OVERRIDES)
    assert "ignoring the checkpoint" not in resumed.err
    assert "resume    after round 8" in resumed.out


@pytest.mark.parametrize("client_memory", [pytest.param("memory", marks=pytest.mark.slow), "disk"])
def test_a_rerun_starts_over(command, crashed_run, straight, client_memory):
    overrides = (*OVERRIDES, f"fl_scene.client_memory={client_memory}")
    crashed_run(*overrides)
    rerun = command(*overrides, "rerun=true")
    assert rerun.code == 0, rerun.err
    assert "resume" not in rerun.out
    assert outcome(Path()) == outcome(straight(*overrides))
