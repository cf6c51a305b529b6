"""Probes of client drift: weight divergence, cosine of updates, variance of gradients."""

import torch
from torch import Tensor
from torch.nn import functional as F

from fedpan_exp.alignment.divergence import gradient_variances, update_cosines, weight_divergence, weights_by_layer
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.federation import Snapshot
from fedpan_exp.training import LocalTrainer


class DriftProbe:
    """Base of the drift probes: splits a flat vector into layers."""

    def __init__(self, trainer: LocalTrainer, clients: Clients, test: ImageTensors):
        self.trainer, self.clients = trainer, clients

    def layers(self, vector: Tensor) -> dict[str, Tensor]:
        net = self.trainer.net
        return weights_by_layer(net.named_views(vector), net.net.permutation_spec)


class DivergenceProbe(DriftProbe):
    """Distance of each client's weights from the mean of all clients (Zhao et al., 2018), per layer."""

    def measure(self, snapshot: Snapshot) -> list[dict[str, float]]:
        mean = self.layers(snapshot.mean.weights)
        return [weight_divergence(self.layers(local.weights), mean) for local in snapshot.local_models]


class CosineProbe(DriftProbe):
    """Cosine similarity of each client's update and the mean update, per layer."""

    def measure(self, snapshot: Snapshot) -> list[dict[str, float]]:
        before, mean = self.layers(snapshot.before.weights), self.layers(snapshot.mean.weights)
        return [update_cosines(self.layers(local.weights), before, mean) for local in snapshot.local_models]


class GradientVarianceProbe(DriftProbe):
    """The local gradient variance of the paper's supplement, which does not define it.

    Here g_k is client k's gradient of the cross entropy over all its samples, at the mean of the local models, in eval
    mode and without augmentation. The metric is the variance over clients, mean_k |g_k - mean g|^2, per layer.
    """

    def measure(self, snapshot: Snapshot) -> list[dict[str, float]]:
        self.trainer.net.load(*snapshot.mean)
        return gradient_variances([self.gradient(k) for k in snapshot.cohort])

    def gradient(self, k: int) -> dict[str, Tensor]:
        net, transform, images = self.trainer.net, self.trainer.transform, self.clients.train_images(k)
        net.net.eval()
        size = self.trainer.evaluation_batch(images.x)
        total = torch.zeros_like(net.weights)
        for x, y in zip(images.x.split(size), images.y.split(size), strict=True):
            loss = F.cross_entropy(net(transform.normalize(x)), y, reduction="sum")
            torch._foreach_add_(net.trained_views(total), torch.autograd.grad(loss, net.trained))
        return self.layers(total.div_(len(images)).cpu())
