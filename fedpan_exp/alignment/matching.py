"""Match the neurons of two networks by optimal assignment, using their activations or their weights."""

from collections.abc import Mapping

import torch
from torch import Tensor

from fedpan_exp.alignment.permutation_spec import PermutationSpec, permute, rows_per_neuron

NEGLIGIBLE = 1e-9  # smaller gains are rounding errors; with ties the descent would not terminate


def assign(similarity: Tensor, sections: int = 1) -> Tensor:
    """The permutation with the largest sum of similarity[i, perm[i]], within equal consecutive sections."""
    from scipy.optimize import linear_sum_assignment  # late: every command would wait for this import

    width = len(similarity) // sections
    parts = similarity.detach().cpu().double()
    perms = []
    for start in range(0, len(similarity), width):
        part = parts[start : start + width, start : start + width]
        perms.append(start + torch.from_numpy(linear_sum_assignment(part.numpy(), maximize=True)[1]))
    return torch.cat(perms)


def match_activations(a: Tensor, b: Tensor, sections: int = 1) -> Tensor:
    """The permutation of b's neurons that minimizes the sum of distances to a's; both are [neurons, samples]."""
    similarity = -distances(a, b)
    # Neurons that are inactive in both networks are all equally similar: prefer their own position among ties.
    similarity.diagonal().add_(NEGLIGIBLE * similarity.abs().max())
    return assign(similarity, sections)


def distances(a: Tensor, b: Tensor) -> Tensor:
    if a.shape != b.shape:
        raise ValueError(f"networks to match must have equal shapes, got {list(a.shape)} and {list(b.shape)}")
    return torch.cdist(a.double(), b.double())


def match_weights(
    a: Mapping[str, Tensor], b: Mapping[str, Tensor], spec: PermutationSpec, generator: torch.Generator
) -> dict[str, Tensor]:
    """The permutations of b's neurons that bring its weights closest to a's, to be applied by `permute`.

    Weight matching by coordinate descent (Git Re-Basin, Ainsworth et al., ICLR 2023): one group at a time, given all
    others, until none changes. It starts from the better of two guesses: the identity, and a greedy pass from input to
    output that matches each group by tensors whose other axes are matched already. The greedy pass undoes a shuffle at
    once; from other starting points, unmatched neighbours can outweigh the signal of a thin first layer.
    """
    for name in spec.axes:
        if (shape_a := list(a[name].shape)) != (shape_b := list(b[name].shape)):
            raise ValueError(f"networks to match must have equal shapes, got {name} of {shape_a} and {shape_b}")
    a, b = ({name: state[name].detach().cpu().double() for name in spec.axes} for state in (a, b))

    def similarity(group: str) -> Tensor:
        """[neurons of a, neurons of b]: inner products of their weights to the input, the output and matched groups."""
        total = torch.zeros(spec.sizes[group], spec.sizes[group], dtype=torch.float64)
        others = {name: perm for name, perm in permutations.items() if name != group}
        for name, axes in spec.axes.items():
            is_known = all(axis is None or axis.group in (group, *others) for axis in axes)
            for dim, axis in enumerate(axes if is_known else ()):
                if axis and axis.group == group:
                    moved = permute({name: b[name]}, spec, others)[name]
                    total += rows_per_neuron(a[name], dim, len(total)) @ rows_per_neuron(moved, dim, len(total)).T
        return total

    def agreement(permutations: Mapping[str, Tensor]) -> float:
        return sum((a[name] * tensor).sum().item() for name, tensor in permute(b, spec, permutations).items())

    permutations: dict[str, Tensor] = {}
    for group in spec.sizes:
        permutations[group] = assign(similarity(group), spec.sections[group])
    identity = {group: torch.arange(size) for group, size in spec.sizes.items()}
    permutations = max(permutations, identity, key=agreement)

    groups, changed = list(spec.sizes), True
    while changed:
        changed = False
        for i in torch.randperm(len(groups), generator=generator).tolist():
            scores = similarity(groups[i])
            perm, rows = assign(scores, spec.sections[groups[i]]), torch.arange(len(scores))
            gain = scores[rows, perm].sum() - scores[rows, permutations[groups[i]]].sum()
            if gain > NEGLIGIBLE * scores.abs().max():
                permutations[groups[i]] = perm
                changed = True
    return permutations
