"""What fraction of neurons keeps its position? After one shuffle (P_sf), and after local training (N_sf)."""

from dataclasses import dataclass, field

from torch import Generator, Tensor

from fedpan_exp.alignment.kept_ratio import accumulated_permutation, kept_ratio
from fedpan_exp.alignment.shuffle import sample_permutation
from fedpan_exp.config import Experiment
from fedpan_exp.studies.shared.grid import mean_and_deviation, measure_grid
from fedpan_exp.studies.study import Study
from fedpan_exp.system.atomic_io import write_json
from fedpan_exp.system.errors import require, require_each
from fedpan_exp.system.rng import rng
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record

PAPER_P_SF = 0.1  # for the shuffles of local training and the plotted matrix


@dataclass
class KeptRatio(Study):
    name: str = "kept_ratio"
    neurons: int = 1024
    P_sf: list[float] = field(default_factory=list)
    N_sf: list[float] = field(default_factory=list)
    steps: int = 100
    repeats: int = 1000
    # Neither a network nor data is needed, only the seed.
    irrelevant = ("dataset", "model", "pan", "algorithm", "fl_scene", "training", "fabric", "eval_every")

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
        perm = sample_permutation(self.neurons, PAPER_P_SF, rng(seed, "permutation matrix"))
        write_json(record.folder / "order.json", {"P_sf": PAPER_P_SF, "order": perm.tolist()})
        shuffles = [{"P_sf": P_sf} for P_sf in self.P_sf]
        local_trainings = [{"N_sf": N_sf, "P_sf": PAPER_P_SF} for N_sf in self.N_sf]

        def measure(**settings: float) -> dict[str, float]:
            generator = rng(seed, "shuffles", str(settings))
            ratios = [kept_ratio(self._permutation(generator, **settings)) for _ in range(self.repeats)]
            return mean_and_deviation("kept", ratios)

        records = measure_grid([*shuffles, *local_trainings], measure, record, stop)
        record.write_summary({f"summary/kept_N_sf_{r['N_sf']:g}": r["kept"] for r in records if "N_sf" in r})

    def _permutation(self, generator: Generator, P_sf: float, N_sf: float | None = None) -> Tensor:
        if N_sf is None:
            return sample_permutation(self.neurons, P_sf, generator)
        return accumulated_permutation(self.neurons, P_sf, N_sf, self.steps, generator)
