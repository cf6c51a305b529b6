"""python -m fedpan_exp.selftest: modes that agree, and one that does not."""

import pytest
import torch

from fedpan_exp import selftest
from fedpan_exp.selftest import Job, Mode

JOB = Job("digits", ("dataset=digits", "model.width=16", *selftest.COMMON, "fl_scene.H=2"))
SERIAL, WORKERS = (Mode(f"{ranks} processes", ("fabric.accelerator=cpu", f"ranks={ranks}")) for ranks in (1, 2))
OTHER_RATE = Mode("another learning rate", (*SERIAL.settings, "training.lr=0.06"))


def test_modes_that_agree(tmp_path, capsys):
    results = selftest.run_all([JOB], [SERIAL, WORKERS], tmp_path)
    assert [m.deviation for m in results["digits"]] == [0, 0]
    assert selftest.agree(results)
    selftest.print_results(results)
    assert "All modes agree." in capsys.readouterr().out


def test_a_mode_with_other_weights_is_a_failure(monkeypatch, capsys):
    monkeypatch.setattr(selftest, "make_jobs", lambda folder: [JOB])
    monkeypatch.setattr(selftest, "find_modes", lambda: [SERIAL, OTHER_RATE])
    monkeypatch.setattr("sys.argv", ["selftest"])
    with pytest.raises(SystemExit) as end:
        selftest.main()
    assert end.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.endswith("DISAGREES") for line in lines if line.startswith("digits ")] == [False, True]


def test_the_distance_of_states_ignores_counters():
    zeros = {"w": torch.zeros(2), "b": torch.zeros(1), "count": torch.tensor(3)}
    ones = {"w": torch.tensor([2.0, 2.0]), "b": torch.ones(1), "count": torch.tensor(9)}
    assert selftest.distance(zeros, ones) == pytest.approx(3)


def test_gpus_are_compared_by_torchrun_with_a_tolerance(monkeypatch):
    assert [mode.tolerance for mode in selftest.find_modes()] == [0.0] * 3
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    on_gpu = [mode for mode in selftest.find_modes() if "fabric.accelerator=cuda" in mode.settings]
    assert [mode.processes for mode in on_gpu] == [1, 2, 4, 1, 1]
    assert all(mode.tolerance for mode in on_gpu)


@pytest.mark.slow
def test_this_machine(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["selftest"])
    with pytest.raises(SystemExit) as end:
        selftest.main()
    assert end.value.code == 0, capsys.readouterr().out
