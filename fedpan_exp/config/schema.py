"""An experiment as one typed, checked value, independent of Hydra. Its defaults are in conf/."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import MISSING

from fedpan_exp import plugins
from fedpan_exp.algorithms import FedAvg
from fedpan_exp.config.settle import Settle
from fedpan_exp.data import DatasetSettings
from fedpan_exp.federation import CheckpointSettings, Fork, Scene, check_ranks
from fedpan_exp.models import (
    ModelSettings,
    Network,
    Pan,
    check_head,
    check_network,
    check_pan,
    check_rates,
    compensate_rates,
    encodings,
    fix_head,
    initialise,
    set_pan_parameters,
)
from fedpan_exp.probes import PROBES
from fedpan_exp.system.errors import require, require_choice
from fedpan_exp.system.rng import rng
from fedpan_exp.tracking.logger import LoggerSettings
from fedpan_exp.training import FabricSettings, Training

LAST = 5  # the paper reports the mean test accuracy of the last five rounds
AUTO = "auto"  # the seed of a sweep that adds seeds until its comparisons are settled

if TYPE_CHECKING:
    Seed = int
else:
    Seed = int | str  # what a composed config may have: a sweep replaces auto by numbers


@dataclass
class Experiment:
    study: Any = MISSING  # one of fedpan_exp.studies: its settings and its run()
    dataset: DatasetSettings = MISSING
    model: ModelSettings = MISSING
    pan: Pan = MISSING
    algorithm: FedAvg = MISSING
    fl_scene: Scene = MISSING
    training: Training = MISSING
    fabric: FabricSettings = MISSING
    logger: LoggerSettings = MISSING
    checkpoint: CheckpointSettings = MISSING
    settle: Settle = MISSING
    seed: Seed = 0
    eval_every: float = 1  # rounds; below 1: a fraction of the H rounds
    target_acc: float = 0.8  # the summary says how many rounds and bytes it took to reach this
    probes: list[str] = field(default_factory=list)  # measurements on the clients of a round
    probe_every: int = 0  # rounds; 0: the last round only
    fidelity: str = "paper"  # the chosen option of this group
    scale: str = "paper"  # the chosen option of this group
    fork: str | None = None  # RUN@20: continue this run after this round
    plugins: list[str] = field(default_factory=list)  # Python files with algorithms, models, ... of the user's own
    ranks: str = "auto"  # processes that train the clients of a round
    runs: str = "runs"  # the folder of the run folders
    rerun: bool = False
    plan: bool = False
    verbose: bool = False
    on_error: str = "continue"  # what a sweep does after a failed run

    def __post_init__(self) -> None:
        rule = "a whole number (seed=auto needs a sweep)" if self.seed == AUTO else "a whole number"
        require(isinstance(self.seed, int), "seed", rule, self.seed)
        require(math.isfinite(self.eval_every), "eval_every", "finite", self.eval_every)
        require(self.eval_every > 0, "eval_every", "above 0", self.eval_every)
        require(bool(self.runs.strip()), "runs", "a folder, as in runs=runs", "nothing")
        require(0 < self.target_acc <= 1, "target_acc", "in (0, 1]", self.target_acc)
        for probe in self.probes:
            require_choice("probes", probe, PROBES)
        require(self.probe_every >= 0, "probe_every", "at least 0", self.probe_every)
        # The other probes would evaluate a client's weights with encodings it was not trained with.
        use_weights_only = all(probe in ("divergence", "cosine") for probe in self.probes)
        rule = "divergence or cosine where clients have encodings of their own (pan.per_client)"
        require(use_weights_only or self.pan.per_client == "shared", "probes", rule, self.probes)
        fits = self.training.neuron_rates == "plain" or self.pan.mode == "mul"
        require(fits, "training.neuron_rates", f"plain with pan={self.pan.mode}", self.training.neuron_rates)
        has_shared_rates = self.training.neuron_rates == "plain" or self.pan.per_client == "shared"
        rule = "plain where clients have encodings of their own (pan.per_client), which need other rates"
        require(has_shared_rates, "training.neuron_rates", rule, self.training.neuron_rates)
        check_ranks(self.ranks)
        if fork := self.forked():
            model = {name: value for name, value in vars(self.model).items() if name not in ("lr", "authors_lr")}
            dataset = {"name": self.dataset.name, "shape": self.dataset.shape, "classes": self.dataset.classes}
            fork.check(self.fl_scene.H, {"dataset": dataset, "model": model})
        require_choice("on_error", self.on_error, ("continue", "stop"))

    def network(self, k: int = 0) -> Network:
        """Build the network with its initial weights, which depend on the seed but not on the algorithm or the PANs.

        `k`: which of several networks with independent initial weights.
        """
        net = self.build(self.pan)
        if self.training.decay_to == "random":  # as far from 0 as the initial weights
            initialise(net, rng(self.seed, "decay point"))
            net.decay_point = {name: p.detach().clone() for name, p in net.named_parameters()}
        initialise(net, rng(self.seed, "weights", *([k] if k else [])))
        fix_head(net, self.model.head, self.seed)
        set_pan_parameters(net, self.pan, self.seed)
        if self.training.neuron_rates == "compensated":
            compensate_rates(net)
        return net

    def build(self, pan: Pan) -> Network:
        with torch.device("cpu"):  # not on the meta device, which plugins need not know
            plugins.ensure_active(self.plugins)  # another experiment may have been composed since this one
        channels, height, width = self.dataset.shape
        net = self.model.build((channels, height, width), self.dataset.classes, pan)
        check_network(net, self.model.name)
        net.init = self.model.init
        check_head(net, self.model.head)
        check_pan(net, pan)
        if self.training.neuron_rates == "compensated":
            check_rates(net)
        return net

    def meta_network(self) -> Network:
        """Build the network on the meta device, without memory for its weights, to inspect its layers."""
        with torch.device("meta"):
            return self.build(self.pan)

    @property
    def pans_off(self) -> bool:
        """Whether no encoding of the network has an effect: A=0, or a T that is neutral at every layer's width."""
        if self.pan.is_off or self.pan.fixes_weights or {"model", "pan"} & set(self.study.irrelevant):
            return self.pan.is_off
        return all(encoding.neutral for encoding in encodings(self.meta_network()))

    def forked(self) -> Fork | None:
        """The run and the round that this experiment continues."""
        return Fork.find(self.fork, Path(self.runs)) if self.fork else None

    def used_plugins(self) -> list[str]:
        """The plugins that this experiment depends on, with their content: mine.py@3f2ab1c0."""
        names = {
            "dataset": [self.dataset.name],
            "fl_scene.partition": [self.fl_scene.partition],
            "pan.encoding": [] if self.pan.is_off else [self.pan.encoding],
            "probes": self.probes,
        }
        classes = {"algorithm": type(self.algorithm), "model": type(self.model), "study": type(self.study)}
        irrelevant = self.study.irrelevant
        return plugins.used(
            {setting: chosen for setting, chosen in names.items() if setting.split(".")[0] not in irrelevant},
            [chosen for group, chosen in classes.items() if group not in irrelevant],
        )

    def evaluates(self, round_idx: int) -> bool:
        """Whether to test after a round: every `eval_every` rounds, and in the last ones, whose mean is reported."""
        H = self.fl_scene.H
        every = max(1, round(self.eval_every if self.eval_every >= 1 else self.eval_every * H))
        return round_idx % every == 0 or round_idx > H - LAST

    def probes_at(self, round_idx: int) -> bool:
        """Whether the probes measure a round."""
        due = self.probe_every > 0 and round_idx % self.probe_every == 0
        return bool(self.probes) and (due or round_idx == self.fl_scene.H)
