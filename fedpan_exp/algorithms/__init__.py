"""One file per algorithm; the names here are those on the command line."""

from fedpan_exp.algorithms.base import ClientContext, FedAvg, ServerContext, ServerState
from fedpan_exp.algorithms.fed2 import Fed2
from fedpan_exp.algorithms.feddf import FedDF
from fedpan_exp.algorithms.feddyn import FedDyn
from fedpan_exp.algorithms.fedma import FedMA
from fedpan_exp.algorithms.fednova import FedNova
from fedpan_exp.algorithms.fedopt import FedOpt
from fedpan_exp.algorithms.fedpfn import FedPFN, FedPNU
from fedpan_exp.algorithms.fedphp import FedPHP
from fedpan_exp.algorithms.fedprox import FedProx
from fedpan_exp.algorithms.fedrs import FedRS
from fedpan_exp.algorithms.matched import Matched
from fedpan_exp.algorithms.moon import Moon
from fedpan_exp.algorithms.scaffold import Scaffold
from fedpan_exp.algorithms.stats import CohortStats, LocalAccuracy
from fedpan_exp.algorithms.update import ClientUpdate, CohortUpdate, WeightedSum

ALGORITHMS: dict[str, type[FedAvg]] = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fedopt": FedOpt,
    "scaffold": Scaffold,
    "moon": Moon,
    "fednova": FedNova,
    "feddyn": FedDyn,
    "fedrs": FedRS,
    "fedphp": FedPHP,
    "feddf": FedDF,
    "fed2": Fed2,
    "fedma": FedMA,
    "matched": Matched,
    "fedpfn": FedPFN,
    "fedpnu": FedPNU,
}

__all__ = [
    "ALGORITHMS",
    "ClientContext",
    "ClientUpdate",
    "CohortStats",
    "CohortUpdate",
    "Fed2",
    "FedAvg",
    "FedDF",
    "FedDyn",
    "FedMA",
    "FedNova",
    "FedOpt",
    "FedPFN",
    "FedPHP",
    "FedPNU",
    "FedProx",
    "FedRS",
    "LocalAccuracy",
    "Matched",
    "Moon",
    "Scaffold",
    "ServerContext",
    "ServerState",
    "WeightedSum",
]
