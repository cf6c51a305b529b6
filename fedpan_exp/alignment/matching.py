"""Which neuron of one network is which of another: optimal assignment, by what neurons do or by their weights."""

from collections.abc import Mapping

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fedpan_exp.alignment.permutation_spec import PermutationSpec, owned, permute

NEGLIGIBLE = 1e-9  # a gain that is a rounding error; among ties the descent would go on for ever


def assign(similarity: Tensor, sections: int = 1) -> Tensor:
    """The order with the largest sum of similarity[i, order[i]]; rows find partners in their own section only."""
    width = len(similarity) // sections
    parts = similarity.detach().cpu().double()
    permutations = []
    for start in range(0, len(similarity), width):
        part = parts[start : start + width, start : start + width]
        permutations.append(start + torch.from_numpy(linear_sum_assignment(part.numpy(), maximize=True)[1]))
    return torch.cat(permutations)


def match_activations(a: Tensor, b: Tensor, sections: int = 1) -> Tensor:
    """The order of b's neurons whose representations [neurons, samples] lie nearest to a's, by the sum of distances."""
    likeness = -distances(a, b)
    # Neurons that are silent in both are all alike; without a word for their own place they would land anywhere.
    likeness.diagonal().add_(NEGLIGIBLE * likeness.abs().max())
    return assign(likeness, sections)


def distances(a: Tensor, b: Tensor) -> Tensor:
    if a.shape != b.shape:
        raise ValueError(f"neurons are matched with as many others, got {list(a.shape)} and {list(b.shape)}")
    return torch.cdist(a.double(), b.double())


def match_weights(
    a: Mapping[str, Tensor], b: Mapping[str, Tensor], spec: PermutationSpec, generator: torch.Generator
) -> dict[str, Tensor]:
    """The orders of b's neurons that bring its weights nearest to a's, in the sense of `permute`.

    Weight matching by coordinate descent (Git Re-Basin, Ainsworth et al., ICLR 2023): a group at a time, given all
    others, until none moves. It starts from the better of two guesses: the neurons as they are, and a walk from the
    input on, in which each group trusts only tensors whose other axes are matched already. From there a shuffle is
    undone at once; from anywhere, unmatched neighbours can drown out what a thin first layer knows.
    """
    for name in spec.axes:
        if (mine := list(a[name].shape)) != (others := list(b[name].shape)):
            raise ValueError(f"neurons are matched with as many others, got {name} of {mine} and of {others}")
    a, b = ({name: state[name].detach().cpu().double() for name in spec.axes} for state in (a, b))

    def similarity(group: str) -> Tensor:
        """Inner products of all that ties neurons [of a, of b] to the input, the output and matched groups."""
        total = torch.zeros(spec.sizes[group], spec.sizes[group], dtype=torch.float64)
        others = {name: permutation for name, permutation in permutations.items() if name != group}
        for name, axes in spec.axes.items():
            is_known = all(axis is None or axis.group in (group, *others) for axis in axes)
            for dim, axis in enumerate(axes if is_known else ()):
                if axis and axis.group == group:
                    moved = permute({name: b[name]}, spec, others)[name]
                    total += owned(a[name], dim, len(total)) @ owned(moved, dim, len(total)).T
        return total

    def agreement(permutations: Mapping[str, Tensor]) -> float:
        return sum((a[name] * tensor).sum().item() for name, tensor in permute(b, spec, permutations).items())

    permutations: dict[str, Tensor] = {}
    for group in spec.sizes:
        permutations[group] = assign(similarity(group), spec.sections[group])
    as_they_are = {group: torch.arange(size) for group, size in spec.sizes.items()}
    permutations = max(permutations, as_they_are, key=agreement)

    groups, moves = list(spec.sizes), 1
    while moves:
        moves = 0
        for i in torch.randperm(len(groups), generator=generator).tolist():
            likeness = similarity(groups[i])
            permutation, rows = assign(likeness, spec.sections[groups[i]]), torch.arange(len(likeness))
            gain = likeness[rows, permutation].sum() - likeness[rows, permutations[groups[i]]].sum()
            if gain > NEGLIGIBLE * likeness.abs().max():
                permutations[groups[i]] = permutation
                moves += 1
    return permutations
