"""The models of a round, kept for those who look into it."""

from dataclasses import dataclass, field
from functools import cached_property

import torch

from fedpan_exp.training import FlatParameters


@dataclass
class Snapshot:
    """Copies, in main memory."""

    clients: list[int]
    before: FlatParameters  # what all of them started from
    locals: list[FlatParameters] = field(default_factory=list)  # what each of them ended with

    @cached_property
    def mean(self) -> FlatParameters:
        """Of the clients alike, whatever their shares are to the server."""
        weights, buffers = zip(*self.locals, strict=True)
        return FlatParameters(torch.stack(weights).mean(0), torch.stack(buffers).mean(0))
