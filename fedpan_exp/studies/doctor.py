"""Does the encoding do anything, layer by layer? A table of what each layer's neurons are told, with advice."""

from dataclasses import dataclass
from typing import Any, ClassVar

from rich.table import Table

from fedpan_exp.config import Experiment
from fedpan_exp.models import Pan, PositionEncoding, encodings
from fedpan_exp.studies.study import Study
from fedpan_exp.system.atomic_io import write_json
from fedpan_exp.system.console import console, print_status, warn
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record

COLUMNS = {  # of a record, and what the table calls them
    "layer": "layer",
    "width": "width",
    "distinct": "values",
    "largest_group": "share one",
    "spread": "spread",
    "on": "PANs",
    "norm": "norm layer",
}  # the activation comes after it in every network
PRACTICAL = {"add": 0.25, "mul": 0.75}  # the paper's largest A; above it, training may fail


@dataclass
class Doctor(Study):
    name: str = "doctor"
    irrelevant: ClassVar[tuple[str, ...]] = (
        *("algorithm", "fl_scene", "training", "fabric", "eval_every", "seed"),
    )  # encodings know nothing of training, nor of chance

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        found = encodings(experiment.build(experiment.pan))
        rows = [examine(encoding) for encoding in found]
        record.start()
        for number, row in enumerate(rows, start=1):
            record.write(number, row)
        neutral = 0.0 if experiment.pan.mode == "add" else 1.0
        values = {encoding.layer: encoding.values.tolist() for encoding in found}
        write_json(record.folder / "encodings.json", {"neutral": neutral, "values": values})
        console.print(table(rows))
        show_advice(rows)
        warn_of_amplitude(experiment.pan)
        record.write_summary({"summary/layers": len(rows), "summary/silent_layers": sum(not row["on"] for row in rows)})


def examine(encoding: PositionEncoding) -> dict[str, Any]:
    low, high = encoding.values.aminmax()
    return {
        "layer": encoding.layer,
        "width": encoding.neurons,
        "distinct": len(encoding.shared),
        "largest_group": max(encoding.shared),
        "spread": (high - low).item(),
        "on": len(encoding.shared) > 1 and not encoding.removed_by_norm,
        "norm": encoding.norm,
        "advice": advise(encoding),
    }


def advise(encoding: PositionEncoding) -> str:
    largest = max(encoding.shared)
    if encoding.neutral:
        return "a plain layer: it takes an A above 0, and a T that is not a multiple of half the width"
    if encoding.removed_by_norm:
        return "the BatchNorm behind it takes it out again: pan.placement=paper puts it after the norm"
    if len(encoding.shared) == 1:
        return "all neurons have the same value, so they may change places unnoticed: choose another T"
    if largest == 2:
        return "most neurons share their value with another one: pan.encoding=ramp gives each its own"
    if largest > 2:
        return f"up to {largest} neurons share one value and may change places unnoticed: choose a smaller T, or ramp"
    return "every neuron has a value of its own"


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(*COLUMNS.values(), box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        words = {**row, "spread": f"{row['spread']:.3g}", "on": "on" if row["on"] else "off"}
        shown.add_row(*(str(words[name]) for name in COLUMNS))
    return shown


def show_advice(rows: list[dict[str, Any]]) -> None:
    """A line for all layers that get the same."""
    console.print()
    for advice in dict.fromkeys(row["advice"] for row in rows):
        layers = [row["layer"] for row in rows if row["advice"] == advice]
        print_status("advice", f"{' '.join(layers) if len(layers) < len(rows) else 'all layers'}: {advice}")


def warn_of_amplitude(pan: Pan) -> None:
    if not pan.is_off and PRACTICAL[pan.mode] < pan.A:
        warn(f"pan.A={pan.A:g} is above {PRACTICAL[pan.mode]:g}, the paper's largest for pan={pan.mode}")
