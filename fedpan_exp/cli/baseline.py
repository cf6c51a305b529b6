"""The baseline of a run with PANs: the same experiment with PANs off, paired by its seed."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedpan_exp import config
from fedpan_exp.config import Experiment
from fedpan_exp.system.atomic_io import read_json
from fedpan_exp.system.errors import UserError


@dataclass
class Baseline:
    overrides: list[str]
    accuracy: float | None  # None: not run yet

    def describe(self, accuracy: float | None) -> str:
        """The difference to a run with PANs, or the command that runs the baseline."""
        if self.accuracy is None or accuracy is None:
            return shlex.join(["python", "-m", "fedpan_exp", *self.overrides])
        return f"PANs off {self.accuracy:.2%}, PANs on {100 * (accuracy - self.accuracy):+.2f} points; same seed"


def find_baseline(experiment: Experiment, pans_off: bool, overrides: Sequence[str]) -> Baseline | None:
    """Find the run with PANs off; None where there is none to compare with."""
    if pans_off or experiment.study.name != "federate":
        return None
    without_pan = [o for o in overrides if not o.lstrip("+").startswith(("pan=", "pan.", "pan@", "rerun=", "verbose="))]
    typed = [*without_pan, "pan=off"]
    if experiment.training.neuron_rates != "plain":  # which needs PANs
        return None
    if not any(Path(experiment.runs).glob("*-off-*")):
        return Baseline(typed, None)
    try:
        cfg = config.compose_config(*typed)
        off = config.read(cfg)
        settings = config.settings_of(cfg, off)
        folder = Path(off.runs) / config.identify(off, settings).name
    except UserError:  # a setting that needs PANs
        return None
    is_done = read_json(folder / "status.json").get("status") == "done"
    return Baseline(typed, read_json(folder / "summary.json").get("summary/last5_acc") if is_done else None)
