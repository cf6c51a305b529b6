"""Probes of weights: divergence, the cosine of updates, the variance of gradients."""

import torch
from torch import Tensor
from torch.nn import functional as F

from fedpan_exp.alignment.divergence import gradient_variances, update_cosines, weight_divergence, weights_by_layer
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.federation import Snapshot
from fedpan_exp.training import LocalTrainer


class DriftProbe:
    """What probes of weights share: vectors taken apart into layers."""

    def __init__(self, trainer: LocalTrainer, clients: Clients, test: ImageTensors):
        self.trainer, self.clients = trainer, clients

    def layers(self, vector: Tensor) -> dict[str, Tensor]:
        net = self.trainer.net
        return weights_by_layer(net.named(vector), net.net.permutation_spec)


class DivergenceProbe(DriftProbe):
    """The distance of each client's weights from their mean (Zhao et al., 2018), a layer at a time."""

    def measure(self, kept: Snapshot) -> list[dict[str, float]]:
        mean = self.layers(kept.mean.weights)
        return [weight_divergence(self.layers(local.weights), mean) for local in kept.local_models]


class CosineProbe(DriftProbe):
    """Whether clients go the same way: the cosine of each one's update with the mean update."""

    def measure(self, kept: Snapshot) -> list[dict[str, float]]:
        before, mean = self.layers(kept.before.weights), self.layers(kept.mean.weights)
        return [update_cosines(self.layers(local.weights), before, mean) for local in kept.local_models]


class GradientVarianceProbe(DriftProbe):
    """The supplement's local gradient variance, which it does not define.

    Here: at the mean of the local models, each client's gradient of the cross entropy over all its samples, in eval
    mode and without augmentation; of these the variance over clients, mean_k |g_k - mean g|^2, a layer at a time.
    """

    def measure(self, kept: Snapshot) -> list[dict[str, float]]:
        self.trainer.net.load(*kept.mean)
        return gradient_variances([self.gradient(k) for k in kept.cohort])

    def gradient(self, k: int) -> dict[str, Tensor]:
        net, transform, images = self.trainer.net, self.trainer.transform, self.clients.train_images(k)
        net.net.eval()
        size = self.trainer.evaluation_batch(images)
        total = torch.zeros_like(net.weights)
        for x, y in zip(images.x.split(size), images.y.split(size), strict=True):
            loss = F.cross_entropy(net(transform.normalize(x)), y, reduction="sum")
            torch._foreach_add_(net.views(total), torch.autograd.grad(loss, net.parameters))
        return self.layers(total.div_(len(images)).cpu())
