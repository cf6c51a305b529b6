"""Activations and class preferences of a model's neurons on test samples."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fedpan_exp.alignment.matching import match_activations
from fedpan_exp.alignment.preference import contributions
from fedpan_exp.data import ImageTensors
from fedpan_exp.models import activations, capture_activations
from fedpan_exp.system.rng import rng
from fedpan_exp.training import FlatParameters, LocalTrainer


class ActivationProbe:
    """Evaluates several models on the same layers and the same test samples, drawn by the seed."""

    def __init__(self, trainer: LocalTrainer, test: ImageTensors, samples: int, seed: int, layers: Sequence[str]):
        self._trainer, self._net, self.layers = trainer, trainer.net, list(layers)
        drawn = torch.randperm(len(test), generator=rng(seed, "samples"))[:samples]
        self._samples = test[drawn.to(test.x.device)]

    def activations(self, model: FlatParameters, positions: str) -> dict[str, Tensor]:
        """Layer -> [neurons, samples]."""
        self._net.load(*model)
        return activations(self._net.net, self._trainer.transform.normalize(self._samples.x), self.layers, positions)

    def match(self, ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Layer -> the permutation that matches `theirs` to `ours` by activations."""
        sections = self._net.net.permutation_spec.sections
        return {layer: match_activations(ours[layer], theirs[layer], sections.get(layer, 1)) for layer in self.layers}

    def preferences(self, model: FlatParameters) -> dict[str, Tensor]:
        """Layer -> preference vectors of its neurons, [neurons, classes]."""
        self._net.load(*model)
        net = self._net.net.eval()
        classes = net.head.out_features
        totals = {layer: torch.zeros((), device=self._net.weights.device) for layer in self.layers}
        size = self._trainer.evaluation_batch(self._samples.x)
        with capture_activations(net, self.layers) as captured:
            for x, y in zip(self._samples.x.split(size), self._samples.y.split(size), strict=True):
                # In eval mode a sample's logit depends on its own activations only, so one pass covers all classes.
                logit_sum = net(self._trainer.transform.normalize(x)).gather(1, y[:, None]).sum()
                gradients = torch.autograd.grad(logit_sum, [captured[layer] for layer in self.layers])
                for layer, gradient in zip(self.layers, gradients, strict=True):
                    totals[layer] = totals[layer] + contributions(captured[layer].detach(), gradient, y, classes)
        return totals
