"""How many neurons does a shuffle leave at their place? Against P_sf, and against N_sf over a client's visit."""

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Generator, Tensor

from fedpan_exp.alignment.kept_ratio import accumulated_order, share_in_place
from fedpan_exp.alignment.shuffle import shuffled_order
from fedpan_exp.config import Experiment
from fedpan_exp.studies.repeats import summed_up
from fedpan_exp.studies.study import Study
from fedpan_exp.system.atomic_io import write_json
from fedpan_exp.system.console import progress_bar
from fedpan_exp.system.errors import require, require_each
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record

VISITS_P_SF = 0.1  # of every shuffle in a visit, and of the matrix that is drawn: the paper's


@dataclass
class KeptRatio(Study):
    name: str = "kept_ratio"
    neurons: int = 1024
    P_sf: list[float] = field(default_factory=list)
    N_sf: list[float] = field(default_factory=list)
    steps: int = 100
    repeats: int = 1000
    irrelevant: ClassVar[tuple[str, ...]] = (
        *("dataset", "model", "pan", "algorithm", "fl_scene", "training", "fabric", "eval_every"),
    )  # no network, no data: only the seed

    def __post_init__(self) -> None:
        require(self.neurons >= 2, "study.neurons", "at least 2", self.neurons)
        require(self.steps >= 1, "study.steps", "at least 1", self.steps)
        require(self.repeats >= 1, "study.repeats", "at least 1", self.repeats)
        require_each("study.P_sf", self.P_sf, "in [0, 1]", lambda P_sf: 0 <= P_sf <= 1)
        rule = f"between 0 and study.steps={self.steps}"
        require_each("study.N_sf", self.N_sf, rule, lambda N_sf: 0 <= N_sf <= self.steps)

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        record.start()
        seed = experiment.seed
        order = shuffled_order(self.neurons, VISITS_P_SF, rng(seed, "permutation matrix"))
        write_json(record.folder / "order.json", {"P_sf": VISITS_P_SF, "order": order.tolist()})
        shuffles = [{"P_sf": P_sf} for P_sf in self.P_sf]
        visits = [{"N_sf": N_sf, "P_sf": VISITS_P_SF} for N_sf in self.N_sf]
        summary = {}
        with progress_bar("kept_ratio", len(shuffles) + len(visits)) as progress:
            for row, at in enumerate(progress.track([*shuffles, *visits]), start=1):
                draws = rng(seed, "shuffles", str(at))
                kept = summed_up("kept", [share_in_place(self._order(draws, **at)) for _ in range(self.repeats)])
                record.write(row, {**at, **kept})
                if "N_sf" in at:
                    summary[f"summary/kept_N_sf_{at['N_sf']:g}"] = kept["kept"]
        record.write_summary(summary)

    def _order(self, draws: Generator, P_sf: float, N_sf: float | None = None) -> Tensor:
        if N_sf is None:
            return shuffled_order(self.neurons, P_sf, draws)
        return accumulated_order(self.neurons, P_sf, N_sf, self.steps, draws)
