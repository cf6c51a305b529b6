"""Knowledge distillation: train a network to give a teacher's predictions on unlabelled images."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedpan_exp.training.local import LocalTrainer


def distil(
    trainer: LocalTrainer,
    images: Tensor,
    targets: Tensor,
    batches: Tensor,
    lr: float,
    clip: float,
    temperature: float = 1.0,
) -> None:
    """Take one step of Adam per batch; its learning rate falls to 0 by a cosine. What the network fixes stays.

    `targets` are the teacher's logits, `batches` indices of images [steps, batch size].
    """
    net, fabric = trainer.net, trainer.fabric
    optimizer = torch.optim.Adam(net.parameters, lr, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(batches))
    net.net.train()
    trainer.scaling.reset()
    for batch in batches:
        x = trainer.transform.normalize(images[batch].to(fabric.device))
        loss = distillation_loss(net(x), targets[batch.to(targets.device)], temperature)
        fabric.backward(loss)
        trainer.scaling.unscale(optimizer)
        net.clear_frozen_gradients()
        nn.utils.clip_grad_norm_(net.parameters, clip)
        trainer.scaling.step(optimizer)
        optimizer.zero_grad()
        schedule.step()


def distillation_loss(logits: Tensor, targets: Tensor, temperature: float = 1.0) -> Tensor:
    """KL(teacher || student) of the softened predictions, mean over the images."""
    student, teacher = (F.log_softmax(each / temperature, 1) for each in (logits, targets))
    return F.kl_div(student, teacher, reduction="batchmean", log_target=True)
