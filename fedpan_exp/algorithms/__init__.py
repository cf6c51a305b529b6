"""One file per algorithm; the name here is the name on the command line."""

from fedpan_exp.algorithms.base import FedAvg, Server, Upload, Visit, average

ALGORITHMS: dict[str, type[FedAvg]] = {"fedavg": FedAvg}

__all__ = ["ALGORITHMS", "FedAvg", "Server", "Upload", "Visit", "average"]
