"""--help: example commands, and the config groups with the first comment of each option's YAML."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from fedpan_exp.system.paths import CONF, SWEEPS

USAGE = """\
fedpan_exp: federated learning with position-aware neurons (PANs)

  python -m fedpan_exp [group=option ...] [setting=value ...]        (or: fedpan-exp ...)

Examples:
  python -m fedpan_exp                                      FedAvg with PANs on MNIST: the default
  python -m fedpan_exp pan=off                              the baseline: same clients, weights and batches
  python -m fedpan_exp -m pan=off,mul seed=0,1,2            both, three seeds each (any Hydra multirun)
  python -m fedpan_exp dataset=cifar10 model=vgg9 fl_scene.alpha=0.5 fl_scene.H=100
  python -m fedpan_exp study=partition fl_scene.K=20        draw which client has which labels
  python -m fedpan_exp study=doctor pan.T=32                in which layers the encoding has an effect, with advice
  python -m fedpan_exp sweeps=alpha scale=laptop            a grid or figure of the paper, at a smaller scale
  python -m fedpan_exp sweeps=alpha plan=true               what it would cost, without running it

  python -m fedpan_exp plugins=[mine.py] algorithm=mine     an algorithm, model, dataset, ... of your own

Other commands:
  python -m fedpan_exp new algorithm mine                   write such a plugin, its YAML and its test
  python -m fedpan_exp.report runs                          figures and tables on one page, with the paper's numbers
  python -m fedpan_exp.runs                                 which runs are done, failed or unfinished (--retry)
  python -m fedpan_exp.misalignment runs                    the cost of non-i.i.d. data, in misplaced neurons
  python -m fedpan_exp.data list                            which datasets are available (get: download one)
  python -m fedpan_exp.selftest                             do processes and GPUs agree here, and how fast are they
  python -m fedpan_exp.dashboard                            a W&B workspace for the runs
"""

SETTINGS = """\
All settings with their values:  python -m fedpan_exp [...] --cfg job
The paper's letters:             pan.A pan.T  fl_scene.K R E H alpha B
Also at the root:                seed, runs (folder), rerun=true, on_error, ranks, probes, training.*, fabric.*
Hydra's own options:             python -m fedpan_exp --hydra-help
"""


def help_text(added: Iterable[tuple[str, str, str]] = ()) -> str:
    """`added`: the setting, name and description of what plugins add."""
    defaults, added = _defaults(), list(added)
    lines = [USAGE, "Groups and their options (* = default):"]
    for group, chosen in defaults.items():
        folder = SWEEPS if group == "sweeps" else CONF / group
        lines.append(f"\n  {group}")
        for option in sorted(folder.glob("*.yaml")):
            mark = "*" if option.stem == chosen else " "
            lines.append(f"  {mark} {option.stem:<16} {_first_comment(option)}")
        lines += [f"  + {name:<16} {text}" for setting, name, text in added if setting == group]
    others = [f"  + {setting}={name}  {text}" for setting, name, text in added if setting not in defaults]
    if others:
        lines += ["", "Settings:", *others]
    if added:
        lines += ["", "+ from plugins"]
    return "\n".join([*lines, "", SETTINGS])


def _defaults() -> dict[str, str | None]:
    """Map each group to its default option, in the order of the defaults list."""
    entries = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
    return {
        group: option
        for entry in entries
        if isinstance(entry, dict)
        for group, option in entry.items()
        if "hydra" not in group
    }


def _first_comment(path: Path) -> str:
    for line in path.read_text().splitlines():
        if line.startswith("# ") and not line.startswith("# @"):
            return line.removeprefix("# ")
    return ""
