"""FedNova: Tackling the Objective Inconsistency Problem (Wang et al., NeurIPS 2020)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedpan_exp.algorithms.base import ClientContext, FedAvg, ServerState
from fedpan_exp.algorithms.update import CohortUpdate
from fedpan_exp.training import FlatNet

WEIGHT_BITS = 16  # times the 24 bits of a weight: sums over clients stay exact, on any number of processes


@dataclass
class FedNova(FedAvg):
    """Average the clients' changes per step size, so that clients with more steps do not count more.

    With T_k the accumulated learning rate of client k and p_k its part in the mean (sum 1):
    x+ = x + (sum_k p_k T_k) (sum_k p_k (y_k - x) / T_k).
    """

    def finish_client(self, net: FlatNet, client: ClientContext) -> dict[str, Tensor]:
        T = client.accumulated_lr
        dtype = torch.promote_types(net.weights.dtype, torch.float32)  # bf16-true would leave 8 bits
        return {"accumulated_lr": net.weights.new_tensor([T, T**2], dtype=dtype)}

    def aggregation_weight(self, client: ClientContext, weight: float) -> float:
        return _rounded(weight / client.accumulated_lr)

    def aggregate(self, server: ServerState, update: CohortUpdate) -> None:
        """The cohort's means are weighted by p_k / T_k; those of T_k and T_k^2 give the step size of the formula."""
        T, T_squared = update.extras["accumulated_lr"].tolist()
        server.weights = server.weights.lerp(update.weights, T_squared / T**2)
        server.buffers = update.buffers


def _rounded(weight: float) -> float:
    mantissa, exponent = math.frexp(weight)
    return math.ldexp(round(math.ldexp(mantissa, WEIGHT_BITS)), exponent - WEIGHT_BITS)
