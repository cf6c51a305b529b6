"""How much does a shuffle change the output of an untrained network? Error (Eq. 8) on random input over A and T."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from fedpan_exp.alignment.permutation_spec import permute
from fedpan_exp.alignment.shuffle import sample_permutations
from fedpan_exp.alignment.shuffle_error import shuffle_error
from fedpan_exp.config import Experiment
from fedpan_exp.models import ENCODINGS, INITIALISATIONS, Pan
from fedpan_exp.studies.shared.grid import mean_and_deviation, measure_grid
from fedpan_exp.studies.study import Study
from fedpan_exp.system.console import print_status
from fedpan_exp.system.errors import require, require_choice, require_each
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record


@dataclass
class ShuffleError(Study):
    name: str = "shuffle_error"
    modes: list[str] = field(default_factory=list)
    A: list[float] = field(default_factory=list)
    T: list[float] = field(default_factory=list)
    encoding: str = "sine"
    P_sf: float = 0.1
    samples: int = 8
    repeats: int = 5
    initialisation: str = "he"
    # PANs are set by the study itself.
    irrelevant = ("model.init", "pan", "algorithm", "fl_scene", "training", "fabric", "eval_every")

    def __post_init__(self) -> None:
        require_each("study.modes", self.modes, "add or mul", lambda mode: mode in ("add", "mul"))
        require_each("study.A", self.A, "at least 0", lambda A: 0 <= A < math.inf)
        require_each("study.T", self.T, "at least 0", lambda T: 0 <= T < math.inf)
        require_choice("study.encoding", self.encoding, ENCODINGS)
        require(0 <= self.P_sf <= 1, "study.P_sf", "in [0, 1]", self.P_sf)
        require(self.samples >= 1, "study.samples", "at least 1", self.samples)
        require(self.repeats >= 1, "study.repeats", "at least 1", self.repeats)
        require_choice("study.initialisation", self.initialisation, INITIALISATIONS)

    @torch.no_grad()
    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        """Use the same weights, random input and permutations for all settings."""
        seed, device = experiment.seed, experiment.fabric.make().device
        net = experiment.build(Pan())
        INITIALISATIONS[self.initialisation](net, rng(seed, "weights"))
        state = net.to(device).state_dict()
        x = torch.randn(self.samples, *experiment.dataset.shape, generator=rng(seed, "random input")).to(device)
        permutations = [
            sample_permutations(net.permutation_spec, self.P_sf, rng(seed, "shuffle", i)) for i in range(self.repeats)
        ]
        shuffled = [permute(state, net.permutation_spec, perms) for perms in permutations]
        plain = functional_call(net.eval(), state, x)
        scale = (plain.norm(dim=1) / plain.shape[1]).mean()
        print_status("output", f"scale {scale:.3g} without PANs, in units of the error")

        def measure(**settings: Any) -> dict[str, float]:
            pan_net = experiment.build(Pan(**settings, encoding=self.encoding)).to(device).eval()
            unshuffled = functional_call(pan_net, state, x)
            errors = [shuffle_error(functional_call(pan_net, moved, x), unshuffled) for moved in shuffled]
            return mean_and_deviation("error", errors)

        record.start()
        points = [{"mode": mode, "A": A, "T": T} for mode in self.modes for T in self.T for A in self.A]
        record.write_summary(fit_powers(measure_grid(points, measure, record, stop), self.T[0]))


def fit_powers(records: list[dict[str, Any]], T: float) -> dict[str, float]:
    """Mode -> p in error ~ A^p, the slope in a log-log plot; 1 is linear."""
    powers = {}
    for mode in dict.fromkeys(record["mode"] for record in records):
        points = [r for r in records if r["mode"] == mode and r["T"] == T and r["A"] > 0 and r["error"] > 0]
        A, error = ([record[name] for record in points] for name in ("A", "error"))
        if len(set(A)) > 1:
            powers[f"summary/power_{mode}"] = float(np.polyfit(np.log(A), np.log(error), 1)[0])
    return powers
