"""The round loop: choose clients, train each locally, aggregate, yield."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from torch import Tensor

from fedpan_exp.algorithms import FedAvg, Server, Upload, Visit
from fedpan_exp.checks import Diverged
from fedpan_exp.data import Batch, Clients, Images
from fedpan_exp.federation.checkpoint import Checkpoint
from fedpan_exp.federation.joint import joint
from fedpan_exp.federation.kept import Kept
from fedpan_exp.federation.memories import Memories
from fedpan_exp.federation.ranks import assemble, share_out
from fedpan_exp.federation.scene import Scene
from fedpan_exp.federation.team import Dismissed, Lost, label
from fedpan_exp.stopping import Stop
from fedpan_exp.training import Fit, LocalTrainer, Score, Vectors

T = TypeVar("T")
TEST, END = -1, 0  # words of rank 0 to the others; any other is the number of a round, and whether clients remember


class Divergence:
    """How far clients end from each other: the root mean square of |w_k - mean w|, as a running sum."""

    def __init__(self) -> None:
        self.ways: Tensor | None = None
        self.squares: Tensor | float = 0.0
        self.clients = 0

    def add(self, way: Tensor) -> None:
        """From where all of them started to where one of them ended; the vector is ours from now on."""
        self.ways = way if self.ways is None else self.ways.add_(way)
        self.squares += way.dot(way)
        self.clients += 1

    def value(self) -> float:
        assert self.ways is not None, "a round has at least one client"
        mean = self.ways / self.clients
        return math.sqrt(max(0.0, float(self.squares / self.clients - mean.dot(mean))))


@dataclass
class Round:
    """One round as it went; the server is live and moves on with the next."""

    index: int  # from 1
    server: Server
    clients: list[int]
    test: Callable[[], Score] = field(repr=False)  # the server's weights on the global test set, when asked for
    fits: list[Fit] = field(default_factory=list)
    local_scores: list[tuple[float, float, int]] = field(default_factory=list)  # before, after, samples
    divergence: Divergence = field(default_factory=Divergence)
    kept: Kept | None = None
    up_bytes: int = 0
    down_bytes: int = 0
    local_seconds: float = 0.0
    seconds: float = 0.0

    def measured(self) -> tuple[Any, ...]:
        """On one rank, to be told to the others."""
        sums = (self.up_bytes, self.down_bytes, self.local_seconds, float(self.divergence.squares))
        return (self.fits, self.local_scores, self.kept.locals if self.kept else [], *sums)

    def join(self, measured: Iterable[tuple[Any, ...]], order: Iterable[int]) -> None:
        """Of all ranks; `order` is where the clients of one after the other belong in the round."""
        fits, scores, models, *sums = zip(*measured, strict=True)
        places = list(order)
        self.fits, self.local_scores = _in_order(places, chain(*fits)), [*chain(*scores)]
        if self.kept:
            self.kept.locals = _in_order(places, chain(*models))
        self.up_bytes, self.down_bytes, self.local_seconds, self.divergence.squares = map(sum, sums)
        self.divergence.clients = len(self.fits)

    def metrics(self) -> dict[str, float]:
        samples = sum(fit.samples for fit in self.fits)
        values = {
            "train/loss": sum(fit.loss * fit.samples for fit in self.fits) / samples,
            "train/samples": samples,
            "train/steps": sum(fit.steps for fit in self.fits),
            "clients/divergence": self.divergence.value(),
            "comm/up_bytes": self.up_bytes,
            "comm/down_bytes": self.down_bytes,
            "time/local_s": self.local_seconds,
            "time/round_s": self.seconds,
        }
        held_out = sum(count for *_, count in self.local_scores)
        if held_out:
            values["local/pre_acc"] = sum(pre * count for pre, _, count in self.local_scores) / held_out
            values["local/post_acc"] = sum(post * count for _, post, count in self.local_scores) / held_out
        return values


def federate(
    algorithm: FedAvg,
    trainer: LocalTrainer,
    clients: Clients,
    scene: Scene,
    seed: int,
    track: Callable[[list[int]], Iterable[int]] = iter,
    memories: Memories | None = None,
    resume: Checkpoint | None = None,
    stop: Stop | None = None,
    test: Images | None = None,
    ranks: int = 1,
    keeps: Callable[[int], bool] = lambda turn: False,
) -> Iterator[Round]:
    """Yield every round after aggregation.

    `track` may watch the clients of a round go by; `memories` keeps what clients remember. With `resume` it goes on
    behind that checkpoint. A `stop` is heeded between two batches: then the server and the memories are still those of
    the round before. Over several `ranks` only the first yields; the others help it, here, and go no further. Rounds
    that `keeps` names keep copies of their models.
    """
    net = trainer.net
    fresh = net.buffers.clone()
    memories = Memories() if memories is None else memories
    if resume:
        server = resume.server
    else:
        server = Server(net.weights.clone(), net.buffers.clone(), clients=len(clients))
        algorithm.start(server)

    def uploads(this: Round, chosen: Iterable[int]) -> Iterator[Upload]:
        for k in chosen:
            memory = {name: vector.to(net.weights.device) for name, vector in memories[k].items()}
            visit = Visit(server, memory, clients.samples(k))
            net.load(server.weights, server.buffers)
            batches = clients.batches(k, this.index, scene.E, scene.B, skip_single=trainer.has_batch_norm)
            with net.at_client(k, seed):
                upload = _visit(algorithm, trainer, clients, scene, k, visit, this, fresh, team.watch(batches))
            this.divergence.add(upload.weights - server.weights)
            if this.kept:
                this.kept.locals.append(Vectors(upload.weights, upload.buffers).copied())
            yield upload
            if visit.memory:
                memories[k] = {name: vector.cpu() for name, vector in visit.memory.items()}

    def joint_uploads(this: Round, lends: int) -> Iterator[Upload]:
        """One for all ranks: each trains its share of the clients, with what rank 0 knows that they remember."""
        shares = share_out([clients.samples(k) for k in this.clients], team.size)
        chosen = [[this.clients[place] for place in share] for share in shares]
        lent = team.hand_out([memories.lend(share) for share in chosen]) if lends else {}
        if not team.leads:
            memories.borrow(lent)
        own = uploads(this, track(chosen[0]) if team.leads else chosen[team.rank])

        def tell() -> tuple[Any, list[Tensor]]:
            assert this.divergence.ways is not None
            return (this.measured(), label(memories.changes())), [this.divergence.ways]

        places = [*shares[team.rank], len(this.clients)]
        upload, told = joint(own, team, lambda: places[len(this.fits)], tell)
        measured, labels = zip(*told, strict=True)
        this.join(measured, chain(*shares))
        for changes in team.hand_in(memories.changes(), labels):
            memories.change(changes)
        yield upload
        if team.leads:
            deque(track([*chain(*chosen[1:])]), maxlen=0)

    def play(turn: int, lends: int = False) -> Round:
        """One round, as every rank goes through it."""
        began = time.perf_counter()
        this = Round(turn, server, scene.chosen(len(clients), turn, seed), ask_for_score)
        if keeps(turn):
            this.kept = Kept(this.clients, Vectors(server.weights, server.buffers).copied())
        alone = team.size == 1
        try:
            algorithm.aggregate(server, uploads(this, track(this.clients)) if alone else joint_uploads(this, lends))
        except BaseException:
            memories.roll_back()
            raise
        if team.leads:
            memories.commit()
        if scene.bn_statistics == "keep":
            server.buffers = fresh.clone()
        if not math.isfinite(server.weights.sum().item()):
            raise Diverged(_diverged(f"in round {turn}: the averaged weights are not finite", trainer))
        this.seconds = time.perf_counter() - began
        return this

    def score() -> Score:
        """Each rank tests a part."""
        assert test is not None, "a test needs images"
        net.load(server.weights, server.buffers)
        x, y = (tensor.tensor_split(team.size)[team.rank] for tensor in (test.x, test.y))
        return Score.over(team.gather(trainer.evaluate(Images(x, y)), heed_signals=False))

    def ask_for_score() -> Score:
        """Whoever dies meanwhile: a round that is done is recorded with its score. The next one will not begin."""
        assert test is not None
        try:
            team.say(TEST, False)
            return score()
        except Lost:
            net.load(server.weights, server.buffers)
            return trainer.evaluate(test)

    with assemble(ranks, stop or Stop()) as team:
        team.share(server)
        memories.folder = team.gather(memories.folder.resolve())[0]
        if not team.leads:
            while (words := team.say(END, False))[0] != END:
                score() if words[0] == TEST else play(*words)
            raise Dismissed(0)
        for turn in range(resume.turn + 1 if resume else 1, scene.H + 1):
            yield play(*team.say(turn, bool(memories.clients())))
        team.say(END, False)


def _in_order(places: list[int], items: Iterable[T]) -> list[T]:
    return [item for _, item in sorted(zip(places, items, strict=True), key=lambda pair: pair[0])]


def _visit(
    algorithm: FedAvg,
    trainer: LocalTrainer,
    clients: Clients,
    scene: Scene,
    k: int,
    visit: Visit,
    this: Round,
    fresh: Tensor,
    batches: Iterable[Batch],
) -> Upload:
    """One client: train on its data, measure, pack up."""
    net, began = trainer.net, time.perf_counter()
    held_out = clients.held_out(k) if scene.local_test else None
    before = trainer.evaluate(held_out) if held_out else None
    if scene.bn_statistics == "reset":
        net.buffers.copy_(fresh)
    algorithm.begin(net, visit)
    fit = trainer.fit(
        batches,
        this.index,
        loss=lambda x, y: algorithm.loss(net, x, y, visit),
        adjust_gradient=lambda: algorithm.adjust_gradient(net, visit),
        decay=algorithm.decay,
    )
    if not math.isfinite(fit.loss):
        raise Diverged(_diverged(f"in round {this.index} at client {k}: the local loss is {fit.loss}", trainer))
    visit.travel = fit.travel
    upload = Upload(net.weights, net.buffers, scene.share(visit.samples), algorithm.finish(net, visit))
    if held_out and before:
        this.local_scores.append((before.accuracy, trainer.evaluate(held_out).accuracy, before.samples))
    this.fits.append(fit)
    statistics = net.buffers.nbytes  # travel down only to be trained on, up only to be averaged
    this.up_bytes += upload.bytes - (statistics if scene.bn_statistics == "keep" else 0)
    down_bytes = sum(vector.nbytes for vector in algorithm.download(visit.server))
    this.down_bytes += down_bytes - (statistics if scene.bn_statistics != "average" else 0)
    this.local_seconds += time.perf_counter() - began
    return upload


def _diverged(what: str, trainer: LocalTrainer) -> str:
    settings = trainer.settings
    return (
        f"diverged {what}; try a smaller training.lr (now {settings.lr:g}) or a bound on the gradient, training.clip "
        f"(now {settings.clip or 'none'})"
    )
