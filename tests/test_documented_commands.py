"""Every command and every piece of Python in README, docs and --help is executed: as typed, but with less work.

Single runs train a small network on digits; sweeps are planned, as their jobs are run in tests/test_sweep_files.py.
docs/log.md and docs/decisions.md record what was done, and are no instructions.
"""

import re
import shlex
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

import fedpan_exp as fp
from fedpan_exp import api, cli
from fedpan_exp.cli.help import help_text
from fedpan_exp.system.paths import CONF

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.name not in ("log.md", "decisions.md")]
TOOLS = ("runs", "report.__main__", "misalignment", "data.__main__", "dashboard")

OWN = ("dataset=folder", "dataset=npz", "dataset=hf")
LESS = ("fl_scene.H=2", "fl_scene.E=1", "fl_scene.K=4", "fl_scene.R=0.5", "fl_scene.B=64", "ranks=1")
SMALL_NETWORK = ("model=mlp", "model.width=8", "model.depth=1")
LESS_BY_STUDY = {  # settings of studies that would take long
    "study=shuffle_error": ("study.repeats=1",),
    "study=kept_ratio": ("study.repeats=2",),
    "study=centralize": ("study.epochs=1",),
    "study=fusion": ("study.epochs=1",),
}
INSTEAD = {  # what this machine does not have, and what users fill in
    "hydra/launcher=ray_cluster": "hydra/launcher=cores",  # Ray's launcher needs an environment of its own
    "fabric.accelerator=cuda": "fabric.accelerator=cpu",
    "fabric.precision=bf16-mixed": "fabric.precision=32-true",
    "/mnt/other/runs": "more/runs",
    "--root /lab": "--root data",
    "--pairs runs": "--pairs more/runs",  # else `runs sync` would have something to upload
    "get cifar10 mnist": "get digits",
    "get cifar10": "get digits",
    "runs=/shared/runs": "runs=runs",
    "dataset.hf=uoft-cs/cifar10": "dataset.hf=saved",
    "dataset.hf=flwrlabs/femnist": "dataset.hf=saved",
    "dataset.user=writer_id": "dataset.user=writer",
}


def commands_in(text: str) -> list[str]:
    """Commands of this package, at the start of a line or in backticks, without comments and explanations."""
    text = re.sub(r" *\\\n +", " ", text)  # a line that ends in a backslash goes on
    lines = [line.lstrip(" #") for line in text.splitlines()]
    quoted = re.findall(r"`((?:python -m fedpan_exp|fedpan-exp|torchrun)[^`\n]*)`", text)
    found = [
        line
        for line in [*lines, *quoted]
        if re.match(r"(python -m fedpan_exp|fedpan-exp |torchrun .*-m fedpan_exp)", line)
    ]
    found = [re.split(r"\s+#|\s{2,}", line)[0] for line in found]
    return [command for command in found if "..." not in command and not re.search(r"[\[ ]group=|:$|,$", command)]


def documented() -> list[str]:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    texts += [help_text(), *(import_module(f"fedpan_exp.{tool}").EXAMPLES for tool in TOOLS)]
    return sorted({command.rstrip(".,;:") for text in texts for command in commands_in(text)})


COMMANDS = documented()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands mention: runs, archives of runs, a sweep, a plugin, images, a split."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "docs").symlink_to(ROOT / "docs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        digits = ("dataset=digits", *SMALL_NETWORK, *LESS)
        parent = fp.run(*digits, "checkpoint.keep=[1]")
        Path("RUN").symlink_to(parent.folder)
        fp.run(*digits, "pan=off")
        split = fp.run(*digits, "study=partition").folder / "split.json"
        Path("split.json").write_bytes(split.read_bytes())
        Path("more/runs").mkdir(parents=True)
        rng = np.random.default_rng(0)
        for part, label, i in np.ndindex(2, 2, 10):
            path = Path("photos", ("train", "test")[part], "ab"[label], f"{i}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(path)
        np.savez("own.npz", x=rng.integers(0, 256, (40, 8, 8), np.uint8), y=np.arange(40) % 2)
        save_hugging_face(rng)
        little_work = "fl_scene.alpha=10,0.1 fl_scene.E=1 fl_scene.B=64 model.width=8 ranks=1"
        run(f"python -m fedpan_exp sweeps=alpha scale=smoke {little_work}", patch)
        run("python -m fedpan_exp new algorithm mine", patch)
        for shuffled in ("study=shuffle_federate fl_scene.alpha=10 study.N_sf=0.5,1", "fl_scene.alpha=10,1"):
            run(shlex.join(["python", "-m", "fedpan_exp", "-m", *digits, "pan=off", *shuffled.split()]), patch)
        run("python -m fedpan_exp.runs runs --zip runs.zip", patch)
    return folder


def save_hugging_face(rng: np.random.Generator) -> None:
    import datasets

    rows = {
        "image": [Image.fromarray(pixels) for pixels in rng.integers(0, 256, (40, 8, 8), np.uint8)],
        "label": [i % 2 for i in range(40)],
        "writer": [f"w{i % 4}" for i in range(40)],
    }
    datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image()).save_to_disk("saved")


def run(command: str, patch: pytest.MonkeyPatch) -> int:
    """Run a command in this process; return its exit code."""
    program, *args = shlex.split(command)
    if program == "python":
        module, *args = args[1:]
        program = module.removesuffix(".__main__")
    patch.setattr(sys, "argv", [program, *args])
    try:
        if program in ("fedpan_exp", "fedpan-exp"):
            cli.main()
        else:
            module = import_module(program)
            (module if hasattr(module, "main") else import_module(f"{program}.__main__")).main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def with_less_work(command: str) -> str:
    for typed, instead in INSTEAD.items():
        command = command.replace(typed, instead)
    if command.startswith("torchrun"):  # tests/test_ranks.py runs it
        command = re.sub(r"torchrun .*?-m fedpan_exp", "python -m fedpan_exp", command) + " plan=true"
    program = command.split()[2] if command.startswith("python") else "fedpan_exp"
    if program == "fedpan_exp.dashboard" and "--dry-run" not in command:
        return f"{command} --dry-run"
    if program != "fedpan_exp" or " new " in command or "--help" in command or "--hydra-help" in command:
        return command
    if "sweeps=search" in command:  # chooses its jobs one by one: they cannot be planned
        return shlex.join([*shlex.split(command), "dataset=digits", *SMALL_NETWORK, *LESS, "hydra.sweeper.n_trials=1"])
    if re.search(r" -m [a-z]| sweeps=|plan=true", command.removeprefix("python -m ")):
        return command if "plan=true" in command else f"{command} plan=true"
    settings = [*LESS]
    if not any(own in command for own in OWN):
        settings += ["dataset=digits", "dataset.root=data"]
    if "study=partition" not in command:
        settings += SMALL_NETWORK
    if "fl_scene=natural" in command:
        settings.remove("fl_scene.K=4")
    for study, changes in LESS_BY_STUDY.items():
        settings += changes if study in command else ()
    keys = {setting.partition("=")[0] for setting in settings}
    typed = [word for word in shlex.split(command) if word.partition("=")[0] not in keys]
    return shlex.join([*typed, *settings])


def interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


def test_the_commands_are_found():
    assert len(COMMANDS) > 60
    for expected in (
        "python -m fedpan_exp algorithm=scaffold pan=mul pan.A=0.1",
        "python -m fedpan_exp dataset=folder dataset.root=photos",
        "python -m fedpan_exp.runs sync runs",
        "python -m fedpan_exp.report runs --claims",
        "python -m fedpan_exp.dashboard --dry-run",
        "python -m fedpan_exp.data list",
        "python -m fedpan_exp study=doctor pan.T=32",
    ):
        assert expected in COMMANDS


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_documented_command_runs(command, place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(place)
    if "--watch" in command:
        monkeypatch.setattr("time.sleep", interrupt)
    # Estimating takes long; tests/test_plan.py does it.
    monkeypatch.setattr("fedpan_exp.sweeping.plan.estimate_costs", lambda jobs: [None] * len(jobs))
    if " new " in command:
        monkeypatch.chdir(tmp_path)
    parent = (place / "RUN").readlink().name
    shown = with_less_work(command.replace("fork=RUN@20", f"fork={parent}@1"))
    code = run(shown, monkeypatch)
    assert code in ((0, 130) if "--watch" in command else (0,)), f"{shown}\n{capsys.readouterr().err}"


def blocks() -> list[tuple[str, str]]:
    pattern = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(page.name, code) for page in PAGES for code in pattern.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "code"), blocks(), ids=lambda value: value if value.endswith(".md") else "")
def test_documented_python_runs(page, code, place, monkeypatch):
    monkeypatch.chdir(place)
    if "flwr_datasets" in code:
        pytest.importorskip("flwr_datasets")
    less = ("dataset=digits", *SMALL_NETWORK, *LESS)
    monkeypatch.setattr(fp, "federate", lambda *settings: api.federate(*settings, *less), raising=False)
    monkeypatch.setattr(fp, "run", lambda *settings: api.run(*settings, *less), raising=False)
    exec(compile(code, page, "exec"), {"__name__": "documented"})


def test_the_settings_of_the_help_exist():
    """The lines of --help that are no commands: the paper's letters, the settings at the root."""
    text = help_text()
    config = yaml.safe_load((CONF / "config.yaml").read_text())
    for setting in ("seed", "runs", "rerun", "on_error", "ranks", "probes", "training", "fabric"):
        assert setting in text
        assert setting in config
