"""Match the neurons of one layer across many clients, by a Bayesian model of their weights.

The matching of PFNM (Yurochkin et al., ICML 2019), which FedMA (Wang et al., ICLR 2020) applies layer by layer. The
weights of a neuron are a noisy copy of a global atom. Atoms are drawn from N(0, variance), and a Beta-Bernoulli process
of mass gamma decides how many there are and which client has a copy of which. The most probable matching is sought by
assigning the neurons of one client at a time, given those of all others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

MOST_POPULAR = 10  # an atom of more clients is not more attractive than one of this many, as in the released code
NEGLIGIBLE = 1e-3  # relative gain of a sweep after which there is no other; the released code always makes five sweeps


@dataclass(frozen=True)
class Prior:
    """Variance of the atoms and of the noise; mass of the process: the larger gamma, the more atoms."""

    variance: float = 1.0
    noise: float = 1.0
    gamma: float = 1.0


class Block(NamedTuple):
    """Consecutive entries of all atoms, and their precision per client in units of 1 / noise."""

    entries: int
    precisions: Sequence[float]


def match_atoms(
    atoms: Sequence[Tensor],
    prior: Prior,
    generator: torch.Generator,
    capacity: int | None = None,
    blocks: Sequence[Block] = (),
    sweeps: int = 5,
) -> list[Tensor]:
    """The global atom of every neuron, one tensor [neurons] per client, from their weights [neurons, entries].

    Starts from the client with the most neurons, adds the others one by one, then reassigns clients in random order,
    in at most `sweeps` sweeps. There are at most `capacity` atoms; by default as many as that client has neurons, so
    that nothing grows.
    """
    largest = max(range(len(atoms)), key=lambda j: len(atoms[j]))
    matching = _Matching(atoms, prior, blocks, capacity or len(atoms[largest]))
    matching.place(largest, torch.arange(len(atoms[largest])))
    for j in range(len(atoms)):
        if j != largest:
            matching.assign(j)
    for _ in range(sweeps if len(atoms) > 1 else 0):
        order = torch.randperm(len(atoms), generator=generator).tolist()
        if max([matching.assign(j) for j in order]) < NEGLIGIBLE:
            break
    return matching.places


def estimate_atoms(
    atoms: Sequence[Tensor],
    places: Sequence[Tensor],
    size: int,
    prior: Prior | None = None,
    blocks: Sequence[Block] = (),
) -> Tensor:
    """The global atoms [size, entries] in float64: the mode of the posterior; without a prior, the mean of the copies.

    Atoms that no client has are zero.
    """
    blocks = blocks or _one_block(atoms)
    sums = torch.zeros(size, atoms[0].shape[1], dtype=torch.float64)
    precisions = torch.zeros(size, len(blocks), dtype=torch.float64)
    for j, (rows, rows_at) in enumerate(zip(atoms, places, strict=True)):
        precision = torch.tensor([block.precisions[j] for block in blocks], dtype=torch.float64)
        sums[rows_at] += rows.double() * _spread(precision, blocks)
        precisions[rows_at] += precision
    if prior:
        precisions += prior.noise / prior.variance
    return sums / _spread(precisions.clamp_min(torch.finfo(torch.float64).tiny), blocks)


class _Matching:
    """The current matching: which neuron of each client is a copy of which atom, and sums per atom."""

    def __init__(self, atoms: Sequence[Tensor], prior: Prior, blocks: Sequence[Block], capacity: int):
        blocks = blocks or _one_block(atoms)
        self._atoms, self._prior = atoms, prior
        self._columns = [slice(end - block.entries, end) for block, end in zip(blocks, _ends(blocks), strict=True)]
        self._precisions = [[precision / prior.noise for precision in block.precisions] for block in blocks]
        self.places = [rows.new_empty(0, dtype=torch.long) for rows in atoms]  # per client: the atoms of its neurons
        self._holders = torch.full((len(atoms), capacity), -1)  # per client and atom: the neuron that is its copy
        self._sums = atoms[0].new_zeros(capacity, atoms[0].shape[1])  # per atom: precision x copies, over clients
        # Per client: the gains of its neurons, and the holders that they were computed from.
        self._gains = [(torch.full_like(self._holders, -2), rows.new_empty(capacity, len(rows))) for rows in atoms]

    def assign(self, j: int) -> float:
        """Assign the neurons of client j, given those of all others; return the relative gain over its last places."""
        before = self.places[j]
        self.place(j, before[:0])
        seen, gains = self._gains[j]
        stale = (seen != self._holders).any(0).nonzero().flatten()
        if not len(stale):
            self.place(j, before)
            return 0.0
        gains[stale] = self._gains_of(j, stale)
        seen.copy_(self._holders)
        is_held = (self._holders >= 0).any(0)
        atoms, free = is_held.nonzero().flatten(), (~is_held).nonzero().flatten()
        alone = before[~is_held[before]]  # atoms of this client only: they come first among the new ones
        free = torch.cat([alone, free[~torch.isin(free, alone)]])[: len(self._atoms[j])]
        candidates = torch.cat([atoms, free])
        scores = torch.cat([gains[atoms], self._new_gains(j, len(free))])
        best = _assign(scores)
        self.place(j, candidates[best])
        if not len(before):
            return math.inf
        rows = torch.empty_like(self._holders[j])
        rows[candidates] = torch.arange(len(candidates))
        neurons = torch.arange(len(best))
        total, previous = scores[best, neurons].sum(), scores[rows[before], neurons].sum()
        return ((total - previous) / total.abs()).item()

    def place(self, j: int, places: Tensor) -> None:
        """Make the neurons of client j copies of the atoms at `places`; none of them, if there are no places."""
        for copied, sign in ((self.places[j], -1), (places, 1)):
            rows = self._atoms[j][: len(copied)]
            for columns, precisions in zip(self._columns, self._precisions, strict=True):
                self._sums[:, columns].index_add_(0, copied, rows[:, columns], alpha=sign * precisions[j])
        self._holders[j] = -1
        self._holders[j, places] = torch.arange(len(places))
        self.places[j] = places

    def _gains_of(self, j: int, atoms: Tensor) -> Tensor:
        """[atoms, neurons]: what the log probability, doubled, gains if a neuron of client j is a copy of an atom.

        With W the weighted sum of an atom's copies, S its precision, w a neuron and p its precision:
        |W + p w|^2 / (S + p) - |W|^2 / S, plus ln(c / (J - c)) for an atom of c clients.
        """
        J = len(self._atoms)
        held = self._holders[:, atoms] >= 0
        c = held.sum(0).clamp_max(MOST_POPULAR).to(self._sums.dtype)
        gains = (c / (J - c)).log()[:, None]
        for columns, precisions in zip(self._columns, self._precisions, strict=True):
            w, W, p = self._atoms[j][:, columns], self._sums[atoms, columns], precisions[j]
            S = 1 / self._prior.variance + held.to(W.dtype).T @ W.new_tensor(precisions)
            before = W.norm(dim=1).square()
            after = before[:, None] + 2 * p * (W @ w.T) + p**2 * w.norm(dim=1).square()
            gains = gains + after / (S + p)[:, None] - (before / S)[:, None]
        return gains

    def _new_gains(self, j: int, count: int) -> Tensor:
        """[count, neurons]: the gains if a neuron of client j is the first, second, ... atom of its own."""
        J = len(self._atoms)
        gains = 2 * math.log(self._prior.gamma / J) - 2 * self._sums.new_tensor(range(1, count + 1)).log()[:, None]
        for columns, precisions in zip(self._columns, self._precisions, strict=True):
            p = precisions[j]
            square = self._atoms[j][:, columns].norm(dim=1).square()
            gains = gains + p**2 * square / (1 / self._prior.variance + p)
        return gains


def _assign(scores: Tensor) -> Tensor:
    """A row for each column of [rows, columns], all different, with the largest sum of scores."""
    from scipy.optimize import linear_sum_assignment  # late: every command would wait for this import

    best = scores.argmax(0)
    if len(best.unique()) == len(best):
        return best
    costs = (scores.amax(0) - scores).T.double()  # [neurons, places]
    if len(scores) == len(best):  # every place is taken: a shift of its costs, which halves the time, is harmless
        costs -= costs.amin(0)
    return torch.from_numpy(linear_sum_assignment(costs.numpy())[1])


def _one_block(atoms: Sequence[Tensor]) -> list[Block]:
    return [Block(atoms[0].shape[1], [1.0] * len(atoms))]


def _ends(blocks: Sequence[Block]) -> list[int]:
    return torch.tensor([block.entries for block in blocks]).cumsum(0).tolist()


def _spread(values: Tensor, blocks: Sequence[Block]) -> Tensor:
    """Values per block [..., blocks] as values per entry [..., entries]."""
    return values.repeat_interleave(torch.tensor([block.entries for block in blocks]), -1)
