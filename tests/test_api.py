"""The Python API: the same runs as on the command line, without anything to register first."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

import fedpan_exp as fp
from fedpan_exp.tracking.record import Record

TINY = ("dataset=digits", "scale=smoke", "model.width=16", "fl_scene.E=1", "ranks=1")


def test_rounds_in_memory_are_those_of_a_run_folder(tmp_path):
    settings = (*TINY, "algorithm=scaffold", "pan=mul", "pan.A=0.1")
    rounds = [(round.index, round.test().accuracy) for round in fp.federate(*settings)]
    result = fp.run(*settings, f"runs={tmp_path}")
    assert result.status == "done"
    assert list(zip(result.records["round"], result.records["global/test_acc"], strict=True)) == rounds
    assert result.accuracy == pytest.approx(sum(accuracy for _, accuracy in rounds) / 2)
    assert set(result.weights) == set(fp.experiment(*settings).network().state_dict())
    assert fp.load_runs(tmp_path).loc[result.folder.name, "algorithm"] == "scaffold"


def test_a_finished_run_is_returned_and_not_repeated(tmp_path):
    first = fp.run(*TINY, f"runs={tmp_path}")
    written = (first.folder / "weights.safetensors").stat().st_mtime_ns
    assert fp.run(*TINY, f"runs={tmp_path}") == first
    assert (first.folder / "weights.safetensors").stat().st_mtime_ns == written


def test_a_diverged_run_is_a_result(tmp_path):
    result = fp.run(*TINY, "training.lr=1e6", "training.clip=null", "fl_scene.H=5", f"runs={tmp_path}")
    assert result.status == "diverged"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["algorithm=fedavgg"], "algorithm must be .*, got fedavgg; did you mean fedavg"),
        (["pan.B=1"], r"pan\.B is not a setting"),
        (["fl_scene.R=2"], r"fl_scene\.R must be in \(0, 1\], got 2"),
        ([["pan=off"]], r"settings must be strings, as in .*, got \['pan=off'\]"),
        (["sweeps=alpha"], "a sweep or a plan needs the command line, got sweeps=alpha: python -m fedpan_exp sweeps="),
        (["plan=true"], "a sweep or a plan needs the command line, got plan=true"),
        (["seed=0,1"], "a single run must have one value per setting, got seed=0,1"),
    ],
)
@pytest.mark.parametrize("function", [fp.experiment, fp.run, fp.federate])
def test_a_mistake_raises_one_readable_line(function, settings, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fp.UserError, match=message):
        function(*settings)
    assert not list(Path().iterdir())


def test_an_interrupted_run_says_how_to_resume_and_resumes(tmp_path, monkeypatch):
    settings, write = (*TINY, "fl_scene.H=3", "logger=none"), Record.write

    def write_then_interrupt(self: Record, round_idx: int, metrics: dict) -> None:
        write(self, round_idx, metrics)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Record, "write", write_then_interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            fp.run(*settings, f"runs={tmp_path}/resumed")
    assert caught.value.__notes__ == ["interrupted after round 1; make the same call to resume"]
    resumed, straight = (fp.run(*settings, f"runs={tmp_path}/{name}") for name in ("resumed", "straight"))
    assert resumed.records["round"].tolist() == [1, 2, 3]
    for name, tensor in straight.weights.items():
        assert torch.equal(resumed.weights[name], tensor)


def test_it_works_inside_another_hydra_program(tmp_path):
    (tmp_path / "mine.yaml").write_text("x: 1\n")
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        assert fp.experiment("pan=off").pan.is_off
        assert compose("mine").x == 1
    assert not GlobalHydra.instance().is_initialized()


def test_importing_the_package_does_not_import_torch():
    code = (
        "import sys, fedpan_exp, fedpan_exp.cli; assert 'torch' not in sys.modules\n"
        "fedpan_exp.federate; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_program_may_end_in_the_middle_of_its_rounds(ranks):
    code = f"import fedpan_exp as fp\nrounds = fp.federate(*{TINY}, 'ranks={ranks}')\nprint(next(rounds).index)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("1\n", "")


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_a_loop_that_ends_early_leaves_no_workers_and_no_hook():
    before, excepthook = children(), sys.excepthook
    for round in fp.federate(*TINY, "ranks=2"):
        assert torch.isfinite(round.server.weights).all()
        break
    assert not torch.distributed.is_initialized()
    assert children() == before
    assert sys.excepthook is excepthook  # torch.distributed has one that marks tracebacks with the rank


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_last_round_can_be_tested_after_the_loop_and_earlier_ones_cannot(ranks):
    tested = [(round, round.test().accuracy) for round in fp.federate(*TINY, f"ranks={ranks}")]
    (first, _), (last, accuracy) = tested
    assert last.test().accuracy == accuracy
    with pytest.raises(fp.UserError, match="a round must be tested before the next one, got round 1 after round 2"):
        first.test()


def test_names_are_completed():
    assert {"federate", "run", "experiment", "load_runs", "Result", "UserError"} <= set(dir(fp))
