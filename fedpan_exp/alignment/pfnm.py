"""PFNM: fuse fully connected networks by Bayesian matching, in one shot (Yurochkin et al., ICML 2019)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from fedpan_exp.alignment.bayesian_matching import Block, Prior, estimate_atoms, match_atoms
from fedpan_exp.alignment.layer_chain import Layer, layer_chain
from fedpan_exp.alignment.permutation_spec import PermutationSpec, permute


def can_fuse(spec: PermutationSpec) -> bool:
    """Whether a network is a chain of at least two fully connected layers."""
    return len(layer_chain(spec)) > 1 and all(len(axes) <= 2 for axes in spec.axes.values())


def fuse_pfnm(
    states: Sequence[Mapping[str, Tensor]],
    spec: PermutationSpec,
    label_counts: Tensor,
    generator: torch.Generator,
    prior: Prior | None = None,
) -> dict[str, Tensor]:
    """One network of the same width from several; `label_counts` [networks, classes] are the samples of each.

    From the last hidden layer down, a neuron is matched by its bias and its outgoing weights, whose other ends are
    matched already; in the first layer by its incoming weights, too. The precision of weights to a logit is the
    network's share of the samples of that class.
    """
    prior = prior or Prior()
    shares = label_counts / label_counts.sum(0).clamp_min(1)
    layers, fused = layer_chain(spec), dict(states[0])
    for layer, following in reversed(list(pairwise(layers))):
        atoms = [_atoms(state, layer, following) for state in states]
        outgoing = len(states[0][_weight(following)])
        blocks = [Block(atoms[0].shape[1] - outgoing, [1.0] * len(states))]
        if following.outputs:
            blocks.append(Block(outgoing, [1.0] * len(states)))
        else:
            blocks += [Block(1, share.tolist()) for share in shares.T]
        places = match_atoms(atoms, prior, generator, blocks=blocks)
        rows = estimate_atoms(atoms, places, len(atoms[0]), prior, blocks).to(atoms[0].dtype)
        *incoming, bias, onward = rows.split([rows.shape[1] - outgoing - 1, 1, outgoing], 1)
        fused |= {_weight(following): onward.T, _bias(layer): bias[:, 0]}
        if layer.inputs is None:
            fused[_weight(layer)] = incoming[0]
        assert layer.outputs
        states = [
            permute(state, spec, {layer.outputs: place.argsort()}) for state, place in zip(states, places, strict=True)
        ]
    biases = torch.stack([state[_bias(layers[-1])] for state in states])
    fused[_bias(layers[-1])] = (shares.to(biases) * biases).sum(0)
    return fused


def _atoms(state: Mapping[str, Tensor], layer: Layer, following: Layer) -> Tensor:
    """[neurons, entries]: incoming weights, only in the first layer, bias, outgoing weights."""
    incoming = [state[_weight(layer)]] if layer.inputs is None else []
    return torch.cat([*incoming, state[_bias(layer)][:, None], state[_weight(following)].T], 1)


def _weight(layer: Layer) -> str:
    return layer.tensors[0]


def _bias(layer: Layer) -> str:
    return layer.tensors[1]
