"""The models of one round, kept for probes."""

from dataclasses import dataclass
from functools import cached_property

import torch

from fedpan_exp.training import FlatParameters


@dataclass
class Snapshot:
    """CPU copies of one round's models."""

    cohort: list[int]
    before: FlatParameters  # the server, from which all clients started
    local_models: list[FlatParameters]  # in the cohort's order

    @cached_property
    def mean(self) -> FlatParameters:
        """The unweighted mean of the local models."""
        weights, buffers = zip(*self.local_models, strict=True)
        return FlatParameters(torch.stack(weights).mean(0), torch.stack(buffers).mean(0))
