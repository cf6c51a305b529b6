"""What the neurons of a model do, seen on test samples."""

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
    """Looks at one model after another: at the same layers, on the same samples, drawn by the seed."""

    def __init__(self, trainer: LocalTrainer, test: ImageTensors, samples: int, seed: int, layers: Sequence[str]):
        self._trainer, self._net, self.layers = trainer, trainer.net, list(layers)
        chosen = torch.randperm(len(test), generator=rng(seed, "samples"))[:samples]
        self._sample = test[chosen.to(test.x.device)]

    def activations(self, model: FlatParameters, positions: str) -> dict[str, Tensor]:
        """Layer -> [neurons, samples]."""
        self._net.load(*model)
        return activations(self._net.net, self._trainer.transform.normalize(self._sample.x), self.layers, positions)

    def match(self, ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Layer -> which of their neurons, by activations, is each of ours."""
        sections = self._net.net.permutation_spec.sections
        return {layer: match_activations(ours[layer], theirs[layer], sections.get(layer, 1)) for layer in self.layers}

    def preferences(self, model: FlatParameters) -> dict[str, Tensor]:
        """Layer -> the preference vectors of its neurons, [neurons, classes]."""
        self._net.load(*model)
        net = self._net.net.eval()
        classes = net.head.out_features
        totals = {layer: torch.zeros((), device=self._net.weights.device) for layer in self.layers}
        size = self._trainer.evaluation_batch(self._sample)
        with capture_activations(net, self.layers) as seen:
            for x, y in zip(self._sample.x.split(size), self._sample.y.split(size), strict=True):
                # In eval mode a sample's score hangs on its own activations only, so one pass serves all classes.
                scores = net(self._trainer.transform.normalize(x)).gather(1, y[:, None]).sum()
                gradients = torch.autograd.grad(scores, [seen[layer] for layer in self.layers])
                for layer, gradient in zip(self.layers, gradients, strict=True):
                    totals[layer] = totals[layer] + contributions(seen[layer].detach(), gradient, y, classes)
        return totals
