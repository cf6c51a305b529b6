"""The start of the command: options and names are checked before torch is imported, and an error is the only line."""

import os
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import torch
from processes import SMALL, child, ended, run_folder

from conftest import with_slow_groups
from fedpan_exp import __version__
from fedpan_exp.config import compose_config
from fedpan_exp.config.hydra_config import own_config_store
from fedpan_exp.config.hydra_errors import _names
from fedpan_exp.config.spelling import _register_empty_schemas, check_names
from fedpan_exp.config.yaml_names import groups
from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.errors import UserError
from fedpan_exp.system.paths import CONF
from fedpan_exp.system.signals import nothing_begun


@pytest.mark.parametrize("group", with_slow_groups(groups()))
def test_no_setting_of_a_schema_is_taken_for_a_misspelt_one(group):
    options = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
    expected = {option: set(_names(compose_config(f"{group}={option}"))) for option in options}
    with own_config_store():
        _register_empty_schemas()
        for option in options:
            assert expected[option] <= set(_names(compose_config(f"{group}={option}"))), f"{group}={option}"


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["sed=0,1"], "sed is not a setting; did you mean seed?"),
        (["pan=ad", "seed=0,1"], "pan must be .*, got ad; did you mean add\\?"),
        (["algorithm=fedavg,fedprox", "algorithm.muu=1"], "algorithm.muu is not a setting"),
    ],
)
def test_names_are_checked_in_a_sweep_too(overrides, line):
    with pytest.raises(UserError, match=line.replace("?", "\\?") if "\\" not in line else line):
        check_names(overrides, is_sweep=True)


@pytest.mark.parametrize(
    "overrides",
    [
        ["algorithm=fedavg,fedprox", "algorithm.mu=0.1"],  # some jobs have this setting; the sweep says which do not
        ["pan=glob(*)", "hydra/launcher=basic", "+seed=1", "fl_scene.alpha=interval(0.1,1)"],
        ["sweeps=alpha", "scale=laptop", "dataset.samples=100"],
        ["seed=0,1", "hydra/launcher=slurm", "hydra.launcher.partition=gpu"],
    ],
)
def test_what_depends_on_the_job_is_left_to_the_sweep(overrides):
    check_names(overrides, is_sweep=True)


def imported_by(*args: str) -> list[set[str]]:
    """Which of the slow packages one process has imported when the command has ended with an error, per argument."""
    code = """
import sys
from fedpan_exp.cli import main
for arg in sys.argv[1:]:
    sys.argv[1:] = [arg]
    try: main()
    except SystemExit: pass
    print(*({'torch', 'lightning', 'torchvision', 'scipy', 'pandas', 'matplotlib', 'wandb'} & sys.modules.keys()))
"""
    process = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    errors = process.stderr.splitlines()
    assert [line.startswith("fedpan_exp: ") for line in errors] == [True] * len(args)
    return [set(line.split()) for line in process.stdout.splitlines()]


def test_a_misspelt_name_does_not_wait_for_torch_and_an_invalid_value_not_for_lightning():
    imported = imported_by("--helpp", "fl_scene.Q=1", "algorithm=fedpox", "fl_scene.K=-1")
    assert imported == [set(), set(), set(), {"torch"}]


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["--helpp"], "--helpp is not an option; did you mean --help?"),
        (["--quiet", "seed=1"], "--quiet is not an option"),
        (["--resolve"], "--resolve needs --cfg, which prints the settings: python -m fedpan_exp --cfg job --resolve"),
        (["seed=1", "-m", "pan=off"], "-m must come before the settings: python -m fedpan_exp -m ..."),
        (["~algorithm"], "~algorithm would remove a setting that every experiment needs; choose a value: algorithm="),
    ],
)  # fmt: skip
def test_an_option_that_does_not_exist(command, args, line):
    result = command(*args)
    assert result.code == 1
    assert result.err.startswith(f"fedpan_exp: {line}")
    assert result.err.count("\n") == 1
    assert result.out == ""


def test_version(command):
    assert command("--version").out == f"fedpan_exp {__version__}\n"


def test_a_setting_printed_by_cfg_may_be_resolved(command):
    result = command("--cfg", "job", "--resolve", "fl_scene.K=7")
    assert result.code == 0, result.err
    assert "K: 7" in result.out


def test_an_error_that_needs_the_data_is_the_only_line(command):
    result = command("dataset=digits", "fl_scene.K=1000000")
    assert result.code == 1
    assert result.err.startswith("fedpan_exp: fl_scene.K must be at most 287")
    assert result.out == ""


@pytest.mark.parametrize("folder", ["läufe", "a=b", "with space"])
def test_a_folder_with_special_characters_needs_quotes(command, folder):
    refused = command(*SMALL, f"runs={folder}", "plan=true")
    if refused.code:  # Hydra reads spaces without quotes
        assert refused.err.endswith(f"must be in quotes: 'runs=\"{folder}\"'\n")
    assert command(*SMALL, "fl_scene.H=1", f'runs="{folder}"').code == 0
    assert len(list(Path(folder).glob("federate-*"))) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there(command):
    result = command(*SMALL, "fabric.accelerator=cuda")
    assert result.err == "fedpan_exp: fabric.accelerator must be auto or cpu where torch finds no GPU, got cuda\n"


def test_a_large_amplitude_gives_a_warning(command):
    result = command(*SMALL, "fl_scene.H=1", "pan.A=5", "pan.T=1")
    assert result.code == 0
    assert "warning: pan.A=5 is above 1: some factors 1 + e are negative" in result.err
    assert "negative" not in command(*SMALL, "fl_scene.H=1", "pan=add", "pan.A=5").err


def test_a_closed_pipe_ends_the_run_like_an_interruption(tmp_path):
    """As in `python -m fedpan_exp | head`."""

    def close_output() -> None:
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.close(reader)

    assert ended(child(tmp_path, *SMALL, prepare=close_output)) == 128 + signal.SIGPIPE
    output = (tmp_path / "output").read_text()
    assert output.startswith("fedpan_exp: nobody reads the output any more; run the same command to resume: ")
    assert output.count("\n") == 1
    assert read_json(run_folder(tmp_path) / "status.json")["status"] == "interrupted"


def test_help_into_a_closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run([sys.executable, "-m", "fedpan_exp", "--help"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert process.returncode == 128 + signal.SIGPIPE
    assert process.stderr == b""


def test_ctrl_c_while_importing(capfd):
    process = os.fork()
    if not process:
        with nothing_begun():
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(0)
    assert ended(process) == 130
    assert capfd.readouterr().err == "fedpan_exp: interrupted; nothing had begun\n"


def lines_of(out: str, topic: str) -> list[str]:
    return [line.split(maxsplit=1)[1] for line in out.splitlines() if line.split()[:1] == [topic]]


def test_a_run_shows_what_differs_from_the_defaults(command):
    result = command("dataset=digits", "study=doctor", "pan=mul", "seed=0", "fl_scene.K=7", "model.width=16")
    assert lines_of(result.out, "changed") == ["dataset=digits  study=doctor  fl_scene.K=7  model.width=16"]
    assert "momentum=0.9" not in result.out
    everything = command("dataset=digits", "study=doctor", "fl_scene.K=7", "model.width=16", "verbose=true")
    assert "already done" in everything.out
    assert "momentum=0.9" in everything.out
    assert lines_of(command("study=doctor").out, "changed") == ["study=doctor"]


def test_a_run_ends_with_its_results_and_what_to_do_next(command):
    typed = ("scale=smoke", "model.width=16", "fl_scene.H=3")
    run = command(*typed)
    assert "test accuracy, mean of the last 3 " in run.out
    (folder,) = run.runs
    assert f"{folder}/curves.png" in lines_of(run.out, "picture")
    assert lines_of(run.out, "report") == ["python -m fedpan_exp.report runs"]
    (baseline,) = lines_of(run.out, "baseline")
    assert baseline == "python -m fedpan_exp scale=smoke model.width=16 fl_scene.H=3 pan=off"
    off = command(*baseline.split()[3:])
    assert lines_of(off.out, "baseline") == []
    paired = command(*typed, "pan.A=0.1")
    accuracies = [read_json(each / "summary.json")["summary/last5_acc"] for each in (off.runs[-1], folder)]
    expected = f"PANs off {accuracies[0]:.2%}, PANs on {100 * (accuracies[1] - accuracies[0]):+.2f} points; same seed"
    assert lines_of(paired.out, "baseline") == [expected]


def test_a_run_near_chance_gets_a_remark(command):
    near = command("scale=smoke", "model.width=4", "fl_scene.H=1", "training.lr=1e-9")
    assert lines_of(near.out, "remark")[0].startswith("near chance (10%)")
    learned = command("study=centralize", "dataset=digits", "model.width=32", "model.init=he", "study.epochs=3")
    assert learned.code == 0, learned.err
    assert lines_of(learned.out, "remark") == []


def test_every_phase_of_a_run_has_one_line(command):
    out = command(*SMALL, "fl_scene.H=1").out
    topics = chain(("changed", "defaults", "network", "data", "clients", "device"), ("report", "folder"))
    assert [topic for topic in topics if len(lines_of(out, topic)) != 1] == []
