"""A round of every algorithm relative to one of FedAvg, without evaluation."""

from collections.abc import Iterator

from benchmarks.jobs import NARROW_VGG9
from benchmarks.turns import Comparison, RoundServer, compare
from fedpan_exp.algorithms import ALGORITHMS

NETWORKS = {"MLP 1024, E=5": ("fl_scene.R=0.03",), "VGG9 x 0.25, E=1": NARROW_VGG9}
PAIRS = 8
NEEDS = {  # what an algorithm cannot do without; FedAvg gets the data settings too
    "fed2": ("model.groups=10",),
    "feddf": ("fl_scene.reserve=0.1",),
}


def algorithm_costs() -> Iterator[tuple[str, str, Comparison]]:
    """Algorithm, network, seconds per round of the algorithm and of FedAvg."""
    for network, overrides in NETWORKS.items():
        overrides = (*overrides, "pan=off")
        for name in ALGORITHMS:
            if name == "fedavg":
                continue
            needs = NEEDS.get(name, ())
            scene = tuple(setting for setting in needs if setting.startswith("fl_scene"))
            server = RoundServer((*overrides, *needs, f"algorithm={name}"), with_test=False)
            fedavg = RoundServer((*overrides, *scene, "algorithm=fedavg"), with_test=False)
            yield name, network, compare(server, fedavg, PAIRS)
            server.close()
            fedavg.close()
