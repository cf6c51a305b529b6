"""Checkpoints: every kind of state restored, damage noticed, records cut back."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import SMALL, outcome, run_folder

from conftest import Outcome
from fedpan_exp.federation.checkpoint import _digest_of
from fedpan_exp.system.atomic_io import read_lines
from fedpan_exp.tracking.record import Record


@pytest.fixture
def broken_off(command, monkeypatch) -> Callable[..., Path]:
    """A run that ended in the middle without a word, in this process; returns its folder."""

    def call(*words: str, after: int = 7) -> Path:
        write = Record.write

        def write_then_die(self: Record, round_idx: int, metrics: dict) -> None:
            write(self, round_idx, metrics)
            if round_idx == after:
                raise RuntimeError("the power went")

        with monkeypatch.context() as patched:
            patched.setattr(Record, "write", write_then_die)
            with pytest.raises(RuntimeError):
                command(*words)
        return run_folder(Path())

    return call


WORDS = (*SMALL, "algorithm=scaffold", "checkpoint.every=2")


def finishes_alike(command: Callable[..., Outcome], *words: str) -> Outcome:
    again = command(*words)
    assert again.code == 0, again.err
    resumed = outcome(Path())
    assert [record["round"] for record in resumed[1]] == list(range(1, 13))
    fresh = command(*words, "rerun=true")
    assert fresh.code == 0
    assert outcome(Path()) == resumed
    return again


@pytest.mark.parametrize(
    "words",
    [
        ("algorithm=fedopt", "algorithm.server_optimizer=adam"),
        ("algorithm=fedopt", "algorithm.server_optimizer=yogi"),
        ("model=resnet20", "model.norm=bn", "model.width=4"),
        ("training.warmup=rounds", "eval_every=5", "fl_scene.local_test=0.2"),
    ],
    ids=" ".join,
)
def test_every_kind_of_state_is_restored(command, broken_off, words):
    words = (*SMALL, *words, "checkpoint.every=3")
    broken_off(*words)
    assert "resume    after round 6" in finishes_alike(command, *words).out


def manifests(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoint").glob("*.json"))


def test_two_checkpoints_are_kept(broken_off):
    folder = broken_off(*WORDS)
    assert [json.loads(path.read_text())["round"] for path in manifests(folder)] == [4, 6]
    named = {file for path in manifests(folder) for file in json.loads(path.read_text())["files"]}
    tensors = {str(path.relative_to(folder / "checkpoint")) for path in (folder / "checkpoint").rglob("*.safetensors")}
    assert tensors == named  # neither more nor less


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


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
def test_a_damaged_checkpoint_is_ignored(command, broken_off, damage, reason):
    folder = broken_off(*WORDS)
    damage(manifests(folder)[-1])
    again = finishes_alike(command, *WORDS)
    assert "resume    after round 4, from its checkpoint" in again.out
    assert f"0000006.json: {reason}" in again.err


def test_both_damaged_the_run_starts_over(command, broken_off):
    folder = broken_off(*WORDS)
    for path in manifests(folder):
        flip(path)
    assert "resume" not in finishes_alike(command, *WORDS).out


def test_what_a_crash_left_half_written_is_not_taken_for_a_checkpoint(command, broken_off):
    folder = broken_off(*WORDS)
    newest = manifests(folder)[-1]
    (newest.parent / ".0000008.77.json").write_bytes(newest.read_bytes())  # its tensors were renamed, it was not
    again = finishes_alike(command, *WORDS)
    assert "resume    after round 6, from its checkpoint" in again.out
    assert "ignoring the checkpoint" not in again.err


def sign(path: Path, content: dict) -> None:
    """As a stranger could who has read our code."""
    content.pop("digest")
    path.write_text(json.dumps({**content, "digest": _digest_of(content)}))


def test_a_checkpoint_that_reaches_outside_its_folder(command, broken_off):
    folder = broken_off(*WORDS)
    precious = Path("precious.safetensors")
    precious.write_bytes((next((folder / "checkpoint/clients").iterdir())).read_bytes())
    newest = manifests(folder)[-1]
    content = json.loads(newest.read_text())
    name = f"../../../../{precious}"
    content["clients"]["0"] = name
    content["files"][f"clients/{name}"] = "0" * 32
    sign(newest, content)
    again = finishes_alike(command, *WORDS)
    assert f"0000006.json: {name} is not a file of it" in again.err
    assert precious.exists()


def test_a_checkpoint_of_other_settings(command, broken_off):
    folder = broken_off(*WORDS)
    other = Path(f"{str(folder)[:-8]}00000000")
    for path in manifests(folder):
        content = json.loads(path.read_text())
        content["run"] = other.name
        sign(path, content)
    again = finishes_alike(command, *WORDS)
    assert f": it belongs to {other.name}" in again.err


def test_records_behind_the_checkpoint_are_cut_back(command, broken_off):
    folder = broken_off(*WORDS)
    records = folder / "metrics.jsonl"
    assert len(read_lines(records)) == 7
    with records.open("a") as file:
        file.write('{"round": 8, "train/lo')  # half a line, as a crash leaves it
    assert "resume    after round 6" in finishes_alike(command, *WORDS).out


def test_records_that_are_missing(command, broken_off):
    folder = broken_off(*WORDS)
    records = folder / "metrics.jsonl"
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join(lines[:5]))
    again = finishes_alike(command, *WORDS)
    assert ": records that belong to it are missing" in again.err
    assert "resume    after round 4" in again.out


@pytest.mark.parametrize("disk", ["memory", "disk"])
def test_broken_off_again_before_the_next_checkpoint(command, broken_off, disk):
    """The checkpoint it went on from still stands, and so does the one before."""
    words = (*WORDS, f"fl_scene.client_memory={disk}", "checkpoint.every=4")
    folder = broken_off(*words, after=9)
    for _ in range(2):
        broken_off(*words, after=10)
        assert [json.loads(path.read_text())["round"] for path in manifests(folder)] == [4, 8]
    again = finishes_alike(command, *words)
    assert "ignoring the checkpoint" not in again.err
    assert "resume    after round 8" in again.out


def test_damage_does_not_stand_in_the_way_of_new_checkpoints(command, broken_off):
    folder = broken_off(*WORDS, after=11)
    for path in manifests(folder):
        flip(path.with_suffix(".safetensors"))
    broken_off(*WORDS, after=9)  # from the start: rounds 2 to 8 are below the damaged 8 and 10
    assert [json.loads(path.read_text())["round"] for path in manifests(folder)] == [6, 8]
    again = finishes_alike(command, *WORDS)
    assert "ignoring the checkpoint" not in again.err
    assert "resume    after round 8" in again.out


@pytest.mark.parametrize("disk", ["memory", "disk"])
def test_a_rerun_starts_over(command, broken_off, disk):
    words = (*WORDS, f"fl_scene.client_memory={disk}")
    broken_off(*words)
    again = command(*words, "rerun=true")
    assert again.code == 0, again.err
    assert "resume" not in again.out
