"""Algorithms, models, datasets, partitions, encodings, studies and probes from outside the package."""

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
import yaml

import fedpan_exp as fp
from fedpan_exp import plugins
from fedpan_exp.algorithms import ALGORITHMS
from fedpan_exp.cli.help import help_text
from fedpan_exp.cli.new import KINDS, write_plugin
from fedpan_exp.plugins import registry
from fedpan_exp.sweeping.jobs import read_jobs
from fedpan_exp.system.errors import UserError

PLUGIN = '''
from dataclasses import dataclass
import numpy as np, torch
from fedpan_exp.algorithms import FedAvg
from fedpan_exp.data.datasets.digits import load_digits
from fedpan_exp.models.mlp import MLPSettings


@dataclass
class Half(FedAvg):
    """Go half of the way."""
    name: str = "half"
    step: float = 0.5

    def aggregate(self, server, update):
        server.weights = torch.lerp(server.weights, update.weights, self.step)


@dataclass
class Tiny(MLPSettings):
    name: str = "tiny"
    width: int = 8
    depth: int = 1


def triangle(J, T):
    """Triangle wave."""
    return 1 - 4 * (T * torch.arange(J, dtype=torch.float64) / J % 1 - 0.5).abs()


def blocks(labels, config, rng):
    return np.array_split(np.arange(len(labels)), config.K)


class Norm:
    def __init__(self, trainer, clients, test): ...

    def measure(self, snapshot):
        return [{"all": model.weights.norm().item()} for model in snapshot.local_models]


ALGORITHMS = {"half": Half}
MODELS = {"tiny": Tiny}
DATASETS = {"my_digits": lambda root: load_digits()}
ENCODINGS = {"triangle": triangle}
PARTITIONERS = {"blocks": blocks}
PROBES = {"norm": Norm}
'''
ALL = (
    *("plugins=[mine.py]", "algorithm=half", "model=tiny", "dataset=my_digits", "pan.encoding=triangle"),
    *("fl_scene.partition=blocks", "probes=[norm]", "scale=smoke", "fl_scene.E=1"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(PLUGIN)
    return tmp_path


def test_one_file_adds_all_kinds_and_is_gone_without_it(folder):
    result = fp.run(*ALL, "ranks=1")
    assert result.status == "done"
    assert "summary/norm/all" in result.summary
    settings = yaml.safe_load((result.folder / "config.yaml").read_text())
    assert settings["dataset"]["shape"] == [1, 8, 8]
    assert settings["dataset"]["classes"] == 10
    assert settings["model"]["width"] == 8
    [pinned] = settings["plugins"]
    assert re.fullmatch(r"mine\.py@[0-9a-f]{8}", pinned)
    assert fp.run(*ALL, f"plugins=[{pinned}]").folder == result.folder
    with pytest.raises(UserError, match=r"algorithm must be .*, got half"):
        fp.experiment("algorithm=half")
    assert "half" not in ALGORITHMS


def test_its_content_is_part_of_the_identity_and_its_path_is_not(folder):
    def name(*settings: str) -> str:
        return fp.run(*settings, "study=partition", "dataset=digits", "fl_scene.partition=blocks").folder.name

    first = name("plugins=[mine.py]")
    (folder / "moved").mkdir()
    (folder / "moved" / "other.py").write_text(PLUGIN)
    assert name("plugins=[moved/other.py]") == first
    (folder / "mine.py").write_text(PLUGIN.replace("T * torch", "2 * T * torch"))
    assert name("plugins=[mine.py]") != first


def test_a_plugin_that_is_not_used_does_not_change_the_run(folder):
    plain = read_jobs("dataset=digits")[0].name
    assert read_jobs("plugins=[mine.py]", "dataset=digits")[0].name == plain


def test_an_edited_file_is_read_again_in_one_process(folder):
    settings = ("plugins=[mine.py]", "algorithm=half")
    assert fp.experiment(*settings).algorithm.step == 0.5
    (folder / "mine.py").write_text(PLUGIN.replace("step: float = 0.5", "step: float = 0.25"))
    assert fp.experiment(*settings).algorithm.step == 0.25


def test_experiments_with_and_without_it_can_alternate(folder):
    pair = fp.federate(*ALL, "ranks=1"), fp.federate("dataset=digits", "scale=smoke", "model.width=8", "ranks=1")
    assert [(ours.index, plain.index) for ours, plain in zip(*pair, strict=True)] == [(1, 1), (2, 2)]
    ours, plain = fp.experiment(*ALL), fp.experiment("pan=off")
    assert plain.network().head.out_features == ours.network().head.out_features == 10


def test_two_ranks_give_the_same_weights(folder):
    one, two = ([r.server.weights for r in fp.federate(*ALL, f"ranks={ranks}")][-1] for ranks in (1, 2))
    assert torch.equal(one, two)


def test_a_yaml_file_next_to_it_gives_the_defaults_and_may_set_others(folder, command):
    (folder / "conf" / "algorithm").mkdir(parents=True)
    (folder / "conf" / "algorithm" / "half.yaml").write_text(
        "# @package _global_\n# Half\ndefaults: [schema/half]\n"
        "algorithm: {name: half, step: 0.75}\ntraining: {momentum: 0.0}\n"
    )
    experiment = fp.experiment("plugins=[mine.py]", "algorithm=half")
    assert (experiment.algorithm.step, experiment.training.momentum) == (0.75, 0.0)
    shown = command("plugins=[mine.py]", "algorithm=half", "dataset=digits", "scale=smoke", "model.width=8", "ranks=1")
    assert shown.code == 0, shown.err
    assert "training.momentum=0 by algorithm=half" in shown.out


def test_help_lists_what_a_plugin_adds(folder):
    plugins.activate(["mine.py"])
    text = help_text(plugins.described())
    assert "+ half             Go half of the way." in text
    assert "+ pan.encoding=triangle  Triangle wave." in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("import numpy", "import nothing_there, numpy", "cannot be imported: ModuleNotFoundError in line 3"),
        ("step: float", "step float", "cannot be imported: SyntaxError in line 1[0-9]"),
        ('ALGORITHMS = {"half"', 'ALGORITHMS = {"moon"', "must have another name: algorithm=moon is built in"),
        ('MODELS = {"tiny"', 'MODELS = {"vgg9"', "must have another name: model=vgg9 is built in"),
        ('PARTITIONERS = {"blocks"', 'PARTITIONERS = {"natural"', "fl_scene.partition=natural is built in"),
        ("@dataclass\nclass Half", "class Half", "must have @dataclass above class Half"),
        ('name: str = "half"', 'name: str = "h"', """must have the line name: str = "half", got 'h'"""),
        (
            "def aggregate(self, server, update)",
            "def aggregate(self, server)",
            r"must have aggregate\(self, server, up",
        ),
        (
            "def aggregate",
            "def agregate",
            r"must have another name for agregate, which is not a hook; did you mean aggregate\?",
        ),
        ("Half(FedAvg)", "Half", "must be a class that extends FedAvg"),
        ("def measure", "def measures", "must be a class with the method measure"),
        ("return 1 - 4 *", "return 1 - 9 *", r"must return values in \[-1, 1\]"),
        ("def triangle(J, T)", "def triangle(J)", r"must be a function of \(J, T\)"),
        ('ALGORITHMS = {"half": Half}', 'ALGORITHMS = ["half"]', "must be a dict of names, got list"),
        ("step: float = 0.5", "step: 'dict[Half, int] | str' = 0.5", "must have settings of types that Hydra knows"),
    ],
)
def test_a_mistake_in_a_plugin_is_one_line(folder, old, new, message):
    assert old in PLUGIN
    (folder / "mine.py").write_text(PLUGIN.replace(old, new))
    with pytest.raises(UserError, match=message) as error:
        fp.experiment("plugins=[mine.py]", "algorithm=half")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("[np.arange(3)] * config.K", "with every sample once, got 15 indices, and 1,434 samples missing"),
        ("[np.arange(len(labels))]", "must return 5 arrays of indices, got 1 of int64"),
        (
            "np.array_split(np.arange(len(labels) - 1), config.K)",
            "with every sample once, got 1,436 indices, and 1 sample missing",
        ),
        ("[np.ones(9)] * config.K", "must return 5 arrays of indices, got 5 of float64"),
        ("None", "must return 5 arrays of indices, got NoneType"),
    ],
)
def test_a_partition_that_is_none_is_refused_in_one_line(folder, result, message):
    (folder / "odd.py").write_text(
        f"import numpy as np\nPARTITIONERS = {{'odd': lambda labels, config, rng: {result}}}\n"
    )
    with pytest.raises(UserError, match=f"fl_scene.partition=odd {message}" if "must" in message else message):
        fp.run("plugins=[odd.py]", "fl_scene.partition=odd", "fl_scene.K=5", "dataset=digits")
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "model=odd must build a Network, got NoneType"),
        ("return Network()", "model=odd must build a network that has head"),
        (
            "net = super().build(shape, classes, pan)\n        del net.activation_modules\n        return net",
            "model=odd must build a network that has activation_modules",
        ),
    ],
)
def test_a_model_that_lacks_something_is_refused_in_one_line(folder, body, message):
    (folder / "odd.py").write_text(f"""
from dataclasses import dataclass
from fedpan_exp.models import Network
from fedpan_exp.models.mlp import MLPSettings

@dataclass
class Odd(MLPSettings):
    name: str = "odd"

    def build(self, shape, classes, pan):
        {body}

MODELS = {{"odd": Odd}}
""")
    with pytest.raises(UserError, match=message):
        fp.run("plugins=[odd.py]", "model=odd", "dataset=digits")
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return torch.zeros(8)", r"return 16 values for J=16, T=1, got the shape \[8\]"),
        ("return torch.arange(J) / 8", r"return values in \[-1, 1\], which it does not for J=16, T=1"),
        ("return torch.ones(J) / (J == 8 or 1 // 0)", "return 16 values for J=16, T=1: it raises ZeroDivisionError: "),
    ],
)
def test_an_encoding_is_checked_at_the_widths_of_the_network(folder, body, message):
    (folder / "odd.py").write_text(f"import torch\ndef odd(J, T):\n    {body}\nENCODINGS = {{'odd': odd}}\n")
    with pytest.raises(UserError, match=f"pan.encoding=odd must {message}"):
        fp.run("plugins=[odd.py]", "pan.encoding=odd", "model.width=16", "dataset=digits")
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("measured", ["1", "[]", "{'all': 1.0}", "[{'all': 'text'}]"])
def test_a_probe_that_returns_no_numbers_is_named(folder, measured):
    (folder / "mine.py").write_text(
        PLUGIN.replace(
            "return [{" + '"all": model.weights.norm().item()} for model in snapshot.local_models]',
            f"return {measured}",
        )
    )
    with pytest.raises(UserError, match="probes=norm must return one dict of layer -> number per client of the round"):
        fp.run(*ALL, "ranks=1", "fl_scene.H=1", "logger=none")


def test_a_study_that_records_nothing_is_named(folder):
    (folder / "quiet.py").write_text("""
from dataclasses import dataclass
from fedpan_exp.studies.study import Study

@dataclass
class Quiet(Study):
    name: str = "quiet"

    def run(self, experiment, record, stop): ...

STUDIES = {"quiet": Quiet}
""")
    with pytest.raises(UserError, match=r"study=quiet must call record.start\(\)"):
        fp.run("plugins=[quiet.py]", "study=quiet", "dataset=digits")
    assert not (folder / "runs").exists()


def test_a_study_may_sum_up_in_words(command, tmp_path):
    (tmp_path / "words.py").write_text("""
from dataclasses import dataclass
from fedpan_exp.studies.study import Study

@dataclass
class Words(Study):
    name: str = "words"

    def run(self, experiment, record, stop):
        record.start()
        record.write_summary({"summary/colour": "blue", "summary/size": 12345.678})

STUDIES = {"words": Words}
""")
    for _ in ("now", "done before"):
        printed = command("plugins=[words.py]", "study=words", "dataset=digits", "logger=none")
        assert printed.code == 0, printed.err
        assert re.search(r"colour +blue +\n +size +1.235e\+04", printed.out)


def test_a_plugin_that_is_given_twice_counts_once(folder):
    assert len(fp.experiment("plugins=[mine.py,./mine.py]", "algorithm=half").used_plugins()) == 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("plugins=[none.py]", "plugins must be Python files or installed plugins, got none.py, which is neither"),
        ("plugins=mine.py", r"plugins must be a list, as in plugins=\[mine.py\], got mine.py"),
        ("plugins=[mine.py@00000000]", "plugins must have the content that mine.py@00000000 names, got mine.py@"),
        ("plugins=[mine.py,empty.py]", "the plugin empty.py must have a table ALGORITHMS, MODELS"),
        ("plugins=[mine.py,copy.py]", "plugins must have different names, got half in mine.py and copy.py"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_refused(folder, setting, message):
    (folder / "empty.py").touch()
    (folder / "copy.py").write_text(PLUGIN)
    with pytest.raises(UserError, match=message):
        fp.experiment(setting)


def test_an_installed_package_is_found_by_its_entry_point(folder, monkeypatch):
    (folder / "installed_plugin.py").write_text(PLUGIN)
    (folder / "broken_plugin.py").write_text("import nothing_there\n")
    monkeypatch.syspath_prepend(folder)
    entries = [EntryPoint(name, f"{name}_plugin", registry.GROUP) for name in ("broken", "installed")]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)
    registry._installed.cache_clear()
    try:
        experiment = fp.experiment("algorithm=half")
        assert experiment.used_plugins()[0].startswith("installed@")
    finally:
        monkeypatch.undo()
        registry._installed.cache_clear()


def test_a_program_around_it_keeps_its_own_configs(folder):
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    store.store(name="schema", node={"mine": 1})
    outer = dict(store.repo)
    fp.experiment("plugins=[mine.py]", "algorithm=half")
    with pytest.raises(UserError):
        fp.experiment("pan.B=1")
    assert store.repo == outer
    assert store.load("schema.yaml").node == {"mine": 1}
    from fedpan_exp import config
    from fedpan_exp.studies import load_studies

    config.register(load_studies())  # for the other tests


@pytest.mark.parametrize("kind", KINDS)
def test_new_writes_a_plugin_that_passes_its_test(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_plugin([kind, "my_own"])
    names = {"my_own.py", "test_my_own.py", *([] if kind == "encoding" else ["conf"])}
    assert {path.name for path in Path().iterdir()} == names
    namespace: dict = {}
    exec(Path("test_my_own.py").read_text(), namespace)
    tests = [value for name, value in namespace.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test(tmp_path) if test.__code__.co_argcount else test()
    with pytest.raises(UserError, match=r"the files of a new plugin must not exist, got my_own.py"):
        write_plugin([kind, "my_own"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["algorithm"], "new must have a kind and a name"),
        (["algoritm", "x"], "the kind of a plugin must be .* did you mean algorithm?"),
        (["model", "vgg9"], "must not be that of a built-in model, got vgg9"),
        (["model", "9"], "must be lower-case letters, digits and _, got 9"),
        (["encoding", "sine"], "must not be that of a built-in encoding, got sine"),
        (["algorithm", "torch"], "must not be a word or a module of Python, which it would hide, got torch"),
        (["algorithm", "random"], "got random"),
        (["encoding", "class"], "got class"),
    ],
)
def test_new_refuses_in_one_line(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        write_plugin(args)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_processes_of_a_launcher_know_the_plugin(folder):
    command = [sys.executable, "-m", "fedpan_exp", "-m", *ALL, "seed=0,1", "ranks=1", "hydra/launcher=cores"]
    subprocess.run(command, check=True, capture_output=True)
    assert len(list(Path("runs").glob("federate-*"))) == 2
