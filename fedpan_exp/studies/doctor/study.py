"""Does the position encoding have an effect in each layer? A table of its values per layer, with advice."""

import math
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from fedpan_exp.config import Experiment
from fedpan_exp.models import Pan, PositionEncoding, encodings
from fedpan_exp.models.position import ABSORBABLE, PLAIN, RANDOM
from fedpan_exp.probes.identity import layer_swap_costs
from fedpan_exp.studies.study import Study
from fedpan_exp.system.atomic_io import write_json
from fedpan_exp.system.console import console, plain_table, print_status, warn
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record

COLUMNS = {  # key of a record -> column of the table
    "layer": "layer",
    "width": "width",
    "distinct": "values",
    "largest_group": "max per value",
    "spread": "spread",
    "on": "PANs",
    "norm": "norm layer",
    "absorbed": "absorbed by training",
    "cheapest_swap": "cheapest swap",
    "median_swap": "median swap",
}
MAX_A = {"add": 0.25, "mul": 0.75}  # the largest in the paper; training may fail above


@dataclass
class Doctor(Study):
    name: str = "doctor"
    # Encodings depend neither on training nor on randomness; swap costs are those of the initial weights of seed 0.
    irrelevant = ("algorithm", "fl_scene", "training", "fabric", "eval_every", "seed")

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        net = replace(experiment, seed=0).network()
        layers, costs = encodings(net), layer_swap_costs(net, net.state_dict())
        rows = [examine(encoding) | swaps(encoding, costs.get(encoding.layer)) for encoding in layers]
        record.start()
        for number, row in enumerate(rows, start=1):
            record.write(number, row)
        neutral = 1.0 if experiment.pan.mode in ("off", "mul", "rates") else 0.0
        has_values = experiment.pan.mode not in RANDOM
        values = {encoding.layer: encoding.values.tolist() for encoding in layers if has_values}
        write_json(record.folder / "encodings.json", {"neutral": neutral, "values": values})
        console.print(plain_table(COLUMNS.values(), map(cells, rows)))
        show_advice(rows)
        warn_about_amplitude(experiment.pan)
        record.write_summary({"summary/layers": len(rows), "summary/silent_layers": sum(not row["on"] for row in rows)})


def examine(encoding: PositionEncoding) -> dict[str, Any]:
    low, high = encoding.values.aminmax()
    return {
        "layer": encoding.layer,
        "width": encoding.neurons,
        "distinct": len(encoding.value_counts),
        "largest_group": max(encoding.value_counts),
        "spread": (high - low).item(),
        "on": len(encoding.value_counts) > 1 and not encoding.removed_by_norm,
        "norm": encoding.norm,
        "advice": advise(encoding),
    }


def swaps(encoding: PositionEncoding, costs: Tensor | None) -> dict[str, Any]:
    """Whether training can absorb the encoding, and what two neurons need to take each other's part."""
    absorbed = "yes" if encoding.mode in ABSORBABLE else "plain" if encoding.mode in PLAIN else "no"
    if costs is None:
        return {"absorbed": absorbed, "cheapest_swap": None, "median_swap": None}
    return {"absorbed": absorbed, "cheapest_swap": costs.min().item(), "median_swap": costs.median().item()}


def advise(encoding: PositionEncoding) -> str:
    largest = max(encoding.value_counts)
    if encoding.neutral:
        return "no encoding: needs A above 0 and a T that is not a multiple of half the width"
    if encoding.removed_by_norm:
        return "the BatchNorm after it cancels it: use pan.placement=paper, which encodes after the norm"
    if len(encoding.value_counts) == 1:
        return "all neurons have the same value; swapping them has no effect: choose another T"
    if largest == 2:
        return "most values belong to two neurons: pan.encoding=ramp gives each neuron a distinct value"
    if largest > 2:
        return f"up to {largest} neurons have the same value; swapping them has no effect: choose a smaller T, or ramp"
    return "every neuron has a distinct value"


def cells(row: dict[str, Any]) -> list[str]:
    """A record as a row of the table."""
    shown = {**row, "spread": f"{row['spread']:.3g}", "on": "on" if row["on"] else "off"}
    shown |= {name: "–" if row[name] is None else f"{row[name]:.2g}" for name in ("cheapest_swap", "median_swap")}
    return [str(shown[name]) for name in COLUMNS]


def show_advice(rows: list[dict[str, Any]]) -> None:
    """Print one line per distinct advice, with its layers."""
    console.print()
    for advice in dict.fromkeys(row["advice"] for row in rows):
        layers = [row["layer"] for row in rows if row["advice"] == advice]
        print_status("advice", f"{' '.join(layers) if len(layers) < len(rows) else 'all layers'}: {advice}")


def warn_about_amplitude(pan: Pan) -> None:
    if not pan.is_off and MAX_A.get(pan.mode, math.inf) < pan.A:
        warn(f"pan.A={pan.A:g} is above {MAX_A[pan.mode]:g}, the paper's largest for pan={pan.mode}")
