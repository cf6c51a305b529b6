"""One client in one round: train on its data, starting from the server's weights."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from fedpan_exp.algorithms import ClientContext, ClientUpdate, LocalAccuracy, ServerState
from fedpan_exp.data import Batch, ImageTensors
from fedpan_exp.federation.task import FederatedTask
from fedpan_exp.system.errors import Diverged
from fedpan_exp.training import EvalResult, FitResult

Interruptible = Callable[[Iterable[Batch]], Iterator[Batch]]  # yields batches; raises once a stop is requested


@dataclass
class TrainedClient:
    update: ClientUpdate
    state: dict[str, Tensor]  # what the client keeps until its next round
    fit: FitResult
    local_accuracy: LocalAccuracy | None
    up_bytes: int
    down_bytes: int
    seconds: float


def train_client(
    task: FederatedTask,
    server: ServerState,
    k: int,
    state: dict[str, Tensor],
    round_idx: int,
    interruptible: Interruptible,
) -> TrainedClient:
    """Train client k, whose state from its previous round is `state`."""
    algorithm, trainer, net, scene = task.algorithm, task.trainer, task.trainer.net, task.scene
    started = time.perf_counter()
    client = ClientContext(
        server, state, task.clients.samples(k), k, task.seed, task.clients.label_counts(k), round_idx
    )
    net.load(server.weights, server.buffers)
    with net.using_encodings_of(k, task.seed), net.freezing(algorithm.frozen(net, client)):
        held_out = task.clients.test_images(k) if scene.local_test else None
        before = trainer.evaluate(held_out) if held_out else None
        if scene.bn_statistics == "reset":
            net.buffers.copy_(task.initial_buffers)

        algorithm.init_client(net, client)
        E = algorithm.epochs(server, scene.E)
        steps = round(scene.steps * E / scene.E) if scene.steps else None
        batches = task.clients.batches(k, round_idx, E, scene.B, skip_single=trainer.has_batch_norm, steps=steps)
        fit = trainer.fit(
            interruptible(batches),
            round_idx,
            loss=lambda x, y: algorithm.loss(net, x, y, client),
            adjust_gradient=(lambda: algorithm.adjust_gradient(net, client)) if algorithm.adjusts_gradient else None,
            decay=algorithm.extra_weight_decay,
        )
        if not math.isfinite(fit.loss):
            raise Diverged(task.divergence_message(f"in round {round_idx} at client {k}: the local loss is {fit.loss}"))
        if not math.isfinite(net.weights.norm().item()):  # neurons of such weights cannot be matched
            raise Diverged(task.divergence_message(f"in round {round_idx} at client {k}: the local weights overflow"))
        client.accumulated_lr = fit.accumulated_lr
        extras = algorithm.finish_client(net, client)

        after = evaluate_personal(task, client, held_out) if held_out else None
    weight = algorithm.aggregation_weight(client, scene.aggregation_weight(client.samples))
    update = ClientUpdate(net.weights, net.buffers, weight, extras)
    local_accuracy = LocalAccuracy(before.accuracy, after.accuracy, before.samples) if before and after else None
    up_bytes, down_bytes = communicated_bytes(task, client, update)
    seconds = time.perf_counter() - started
    return TrainedClient(update, client.state, fit, local_accuracy, up_bytes, down_bytes, seconds)


def communicated_bytes(task: FederatedTask, client: ClientContext, update: ClientUpdate) -> tuple[int, int]:
    """Bytes up and down; of weights, what the algorithm has counted itself if it has.

    BatchNorm statistics are sent down only if clients start from them, and up only if they are averaged.
    """
    statistics, up, down = update.buffers.nbytes, client.up_bytes, client.down_bytes
    if up is None:
        up = update.bytes - statistics
    if down is None:
        down = sum(vector.nbytes for vector in task.algorithm.payload(client.server)) - statistics
    kind = task.scene.bn_statistics
    return up + (0 if kind == "keep" else statistics), down + (statistics if kind == "average" else 0)


def evaluate_personal(task: FederatedTask, client: ClientContext, images: ImageTensors) -> EvalResult:
    """Evaluate the client's personal model, which most algorithms take to be the trained one."""
    net = task.trainer.net
    personal = task.algorithm.personal_model(net, client)
    if personal is None:
        return task.trainer.evaluate(images)
    trained = net.weights.clone(), net.buffers.clone()
    net.load(*personal)
    result = task.trainer.evaluate(images)
    net.load(*trained)
    return result
