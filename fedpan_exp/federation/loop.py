"""The round loop: choose clients, train each locally, aggregate, yield."""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from torch import Tensor

from fedpan_exp.algorithms import ClientContext, ClientUpdate, FedAvg, ServerState
from fedpan_exp.data import Clients, ImageTensors
from fedpan_exp.federation.checkpoint import Checkpoint
from fedpan_exp.federation.client_states import ClientStates
from fedpan_exp.federation.joint import joint
from fedpan_exp.federation.ranks import assemble, share_out
from fedpan_exp.federation.round import Round
from fedpan_exp.federation.scene import Scene
from fedpan_exp.federation.snapshot import Snapshot
from fedpan_exp.federation.team import Dismissed, Lost, Team, label
from fedpan_exp.system.errors import Diverged
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.training import EvalResult, FitResult, FlatParameters, LocalTrainer

TEST, END = -1, 0  # words of rank 0 to the others; any other is the number of a round, and whether clients remember


def federate(
    algorithm: FedAvg,
    trainer: LocalTrainer,
    clients: Clients,
    scene: Scene,
    seed: int,
    track: Callable[[list[int]], Iterable[int]] = iter,
    states: ClientStates | None = None,
    resume: Checkpoint | None = None,
    stop: StopRequest | None = None,
    test: ImageTensors | None = None,
    ranks: int = 1,
    snapshot_at: Callable[[int], bool] = lambda round_idx: False,
) -> Generator[Round]:
    """Yield every round after aggregation.

    `track` may watch the clients of a round go by; `memories` keeps what clients remember. With `resume` it goes on
    behind that checkpoint. A `stop` is heeded between two batches: then the server and the memories are still those of
    the round before. Over several `ranks` only the first yields; the others help it, here, and go no further. Rounds
    that `keeps` names keep copies of their models.
    """
    net = trainer.net
    fresh = net.buffers.clone()
    states = ClientStates() if states is None else states
    if resume:
        server = resume.server
    else:
        server = ServerState(net.weights.clone(), net.buffers.clone(), clients=len(clients))
        algorithm.init_server(server)
    with assemble(ranks, stop or StopRequest()) as team:
        federation = Federation(
            algorithm, trainer, clients, scene, seed, track, states, test, snapshot_at, server, fresh, team
        )
        team.share(server)
        states.folder = team.gather(states.folder.resolve())[0]
        if not team.leads:
            federation.help()
        for round_idx in range(resume.round_idx + 1 if resume else 1, scene.H + 1):
            yield federation.play(*team.print_status(round_idx, bool(states.clients())))
        team.print_status(END, False)


@dataclass
class Federation:
    """A server, its clients and the processes that train them, as one of these processes sees it."""

    algorithm: FedAvg
    trainer: LocalTrainer
    clients: Clients
    scene: Scene
    seed: int
    track: Callable[[list[int]], Iterable[int]]
    states: ClientStates
    test: ImageTensors | None
    snapshot_at: Callable[[int], bool]
    server: ServerState
    fresh: Tensor  # BatchNorm statistics before any training
    team: Team

    def play(self, round_idx: int, lends: int = False) -> Round:
        """One round, as every rank goes through it."""
        began, server = time.perf_counter(), self.server
        this = Round(
            round_idx, server, self.scene.sample_cohort(len(self.clients), round_idx, self.seed), self._ask_for_score
        )
        if self.snapshot_at(round_idx):
            this.kept = Snapshot(this.clients, FlatParameters(server.weights, server.buffers).copied())
        alone = self.team.size == 1
        uploads = self._uploads(this, self.track(this.clients)) if alone else self._joint_uploads(this, lends)
        try:
            self.algorithm.aggregate(server, uploads)
        except BaseException:
            self.states.roll_back()
            raise
        if self.team.leads:
            self.states.commit()
        if self.scene.bn_statistics == "keep":
            server.buffers = self.fresh.clone()
        if not math.isfinite(server.weights.sum().item()):
            raise Diverged(_diverged(f"in round {round_idx}: the averaged weights are not finite", self.trainer))
        this.seconds = time.perf_counter() - began
        return this

    def help(self) -> None:
        """Do what rank 0 says until it is done, and end."""
        while (words := self.team.print_status(END, False))[0] != END:
            self._score() if words[0] == TEST else self.play(*words)
        raise Dismissed(0)

    def _uploads(self, this: Round, chosen: Iterable[int]) -> Iterator[ClientUpdate]:
        for k in chosen:
            state = {name: vector.to(self.server.weights.device) for name, vector in self.states[k].items()}
            visit = ClientContext(self.server, state, self.clients.samples(k))
            upload = self._visit(k, visit, this)
            this.divergence.add(upload.weights - self.server.weights)
            if this.kept:
                this.kept.locals.append(FlatParameters(upload.weights, upload.buffers).copied())
            yield upload
            if visit.state:
                self.states[k] = {name: vector.cpu() for name, vector in visit.state.items()}

    def _joint_uploads(self, this: Round, lends: int) -> Iterator[ClientUpdate]:
        """One for all ranks: each trains its share of the clients, with what rank 0 knows that they remember."""
        team, states = self.team, self.states
        shares = share_out([self.clients.samples(k) for k in this.clients], team.size)
        chosen = [[this.clients[place] for place in share] for share in shares]
        exported = team.hand_out([states.export(share) for share in chosen]) if lends else {}
        if not team.leads:
            states.load(exported)
        own = self._uploads(this, self.track(chosen[0]) if team.leads else chosen[team.rank])

        def tell() -> tuple[Any, list[Tensor]]:
            assert this.divergence.ways is not None
            return (this.measured(), label(states.pending())), [this.divergence.ways]

        places = [*shares[team.rank], len(this.clients)]
        upload, told = joint(own, team, lambda: places[len(this.fits)], tell)
        measured, labels = zip(*told, strict=True)
        this.join(measured, chain(*shares))
        for pending in team.hand_in(states.pending(), labels):
            states.apply(pending)
        yield upload
        if team.leads:
            deque(self.track([*chain(*chosen[1:])]), maxlen=0)  # the others' clients have gone by, too

    def _visit(self, k: int, visit: ClientContext, this: Round) -> ClientUpdate:
        """One client: train on its data, measure, pack up."""
        algorithm, trainer, net, scene = self.algorithm, self.trainer, self.trainer.net, self.scene
        began = time.perf_counter()
        net.load(visit.server.weights, visit.server.buffers)
        with net.at_client(k, self.seed):
            held_out = self.clients.held_out(k) if scene.local_test else None
            before = trainer.evaluate(held_out) if held_out else None
            fit = self._fit(k, visit, this.index)
            visit.accumulated_lr = fit.accumulated_lr
            upload = ClientUpdate(
                net.weights, net.buffers, scene.share(visit.samples), algorithm.finish_client(net, visit)
            )
            if held_out and before:
                this.local_scores.append((before.accuracy, trainer.evaluate(held_out).accuracy, before.samples))
        this.fits.append(fit)
        statistics = net.buffers.nbytes  # travel down only to be trained on, up only to be averaged
        this.up_bytes += upload.bytes - (statistics if scene.bn_statistics == "keep" else 0)
        down_bytes = sum(vector.nbytes for vector in algorithm.payload(visit.server))
        this.down_bytes += down_bytes - (statistics if scene.bn_statistics != "average" else 0)
        this.local_seconds += time.perf_counter() - began
        return upload

    def _fit(self, k: int, visit: ClientContext, round_idx: int) -> FitResult:
        algorithm, trainer, net, scene = self.algorithm, self.trainer, self.trainer.net, self.scene
        if scene.bn_statistics == "reset":
            net.buffers.copy_(self.fresh)
        algorithm.init_client(net, visit)
        batches = self.clients.batches(k, round_idx, scene.E, scene.B, skip_single=trainer.has_batch_norm)
        fit = trainer.fit(
            self.team.watch(batches),
            round_idx,
            loss=lambda x, y: algorithm.loss(net, x, y, visit),
            adjust_gradient=lambda: algorithm.adjust_gradient(net, visit),
            decay=algorithm.decay,
        )
        if not math.isfinite(fit.loss):
            raise Diverged(_diverged(f"in round {round_idx} at client {k}: the local loss is {fit.loss}", trainer))
        return fit

    def _score(self) -> EvalResult:
        """Each rank tests a part."""
        assert self.test is not None, "a test needs images"
        self.trainer.net.load(self.server.weights, self.server.buffers)
        x, y = (tensor.tensor_split(self.team.size)[self.team.rank] for tensor in (self.test.x, self.test.y))
        sums = self.trainer.evaluate(ImageTensors(x, y)).sums()
        self.team.add([sums])
        return EvalResult.of_sums(sums)

    def _ask_for_score(self) -> EvalResult:
        """Whoever dies meanwhile: a round that is done is recorded with its score. The next one will not begin."""
        assert self.test is not None
        try:
            self.team.print_status(TEST, False)
            return self._score()
        except Lost:
            self.trainer.net.load(self.server.weights, self.server.buffers)
            return self.trainer.evaluate(self.test)


def _diverged(what: str, trainer: LocalTrainer) -> str:
    settings = trainer.settings
    return (
        f"diverged {what}; try a smaller training.lr (now {settings.lr:g}) or a bound on the gradient, training.clip "
        f"(now {settings.clip or 'none'})"
    )
