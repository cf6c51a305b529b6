"""python -m benchmarks.paper: what the paper's exhibits cost, counted from the sweeps' own files, on assumed GPUs."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from math import ceil

from benchmarks.work import Work, work_of
from fedpan_exp import config
from fedpan_exp.config import Experiment
from fedpan_exp.studies import STUDIES
from fedpan_exp.studies.centralized import CentralizedStudy
from fedpan_exp.studies.federate import Federate
from fedpan_exp.studies.fusion import Fusion
from fedpan_exp.sweeping.jobs import Job, distinct, read_jobs
from fedpan_exp.system.console import console, quietly
from fedpan_exp.system.paths import SWEEPS

# Assumed, not measured: a GPU of 2020 or later, in 32 bits and eager mode.
RATE = 10e12  # operations a second that it sustains
LAYER = 100e-6  # seconds a step and layer at least: about ten kernels have to be started for it
GPUS = 8

IMAGES = {  # training and test, as published; FeMnist: a tenth of LEAF's 805,263, of which a fifth is held out
    **{"mnist": (60_000, 10_000), "svhn": (73_257, 26_032), "gtsrb": (39_209, 12_630), "cinic10": (90_000, 90_000)},
    **{"cifar10": (50_000, 10_000), "cifar100": (50_000, 10_000), "femnist": (64_421, 16_105)},
}
FEMNIST_CLIENTS = 355
MORE_FORWARD = {"moon": 2}  # networks beside the one that is trained
FIGURE = "compare_noniid"
_known: dict[str, Work] = {}


@dataclass
class Cost:
    """Of one run, or of many."""

    runs: int = 0
    rounds: int = 0  # or epochs, where there are none
    samples: float = 0.0  # trained on
    operations: float = 0.0
    seconds: float = 0.0  # of one GPU

    @staticmethod
    def over(costs: "Iterable[Cost]") -> "Cost":
        return Cost(*map(sum, zip(*map(astuple, costs), strict=True)))


def cost_of(experiment: Experiment) -> Cost:
    """Training and tests; what is drawn and compared afterwards is small beside them, and not counted."""
    study, scene = experiment.study, experiment.fl_scene
    train, test = IMAGES[experiment.dataset.name]
    if isinstance(study, Federate):
        K = scene.K or FEMNIST_CLIENTS
        visit = train * (1 - scene.local_test) / K * scene.E
        rounds, visits = scene.H, scene.H * scene.cohort_size(K)
        steps: float = visits * scene.E * ceil(train / K / scene.B)
        samples, tests = visits * visit, sum(map(experiment.evaluates, range(1, rounds + 1)))
    elif isinstance(study, CentralizedStudy):
        rounds = study.epochs * (2 if isinstance(study, Fusion) else 1)
        samples, tests = study.epochs * train, rounds
        steps = samples / study.B
    else:
        return Cost(runs=1)  # nothing is trained
    work = _work(experiment)
    forward = work.testing.total * 1e9
    beside = samples * MORE_FORWARD.get(experiment.algorithm.name, 0) * forward
    training, testing = samples * work.training.total * 1e9 + beside, tests * test * forward
    seconds = max(training / RATE, steps * work.layers * LAYER) + testing / RATE
    return Cost(1, rounds, samples, training + testing, seconds)


def _work(experiment: Experiment) -> Work:
    kind = f"{experiment.dataset.name} {experiment.model}"
    if kind not in _known:
        _known[kind] = work_of(experiment)
    return _known[kind]


def jobs_of(sweep: str) -> list[Job]:
    with quietly():
        return distinct(read_jobs(f"sweeps={sweep}", "scale=paper"))


def show(name: str, cost: Cost) -> None:
    hours = cost.seconds / 3600
    numbers = f"{cost.runs:6}{cost.rounds:10,}{cost.samples / 1e9:9.2f}{cost.operations / 1e18:9.2f}{hours:9.0f}"
    console.print(f"  {name:<36}{numbers}{hours / GPUS:9.1f}")


def main() -> None:
    config.register(STUDIES)
    runs: dict[str, Job] = {}  # exhibits share some
    figure: list[Job] = []
    for path in sorted(set(SWEEPS.glob("*.yaml")) - {SWEEPS / "search.yaml"}):  # the paper has no search
        found = jobs_of(path.stem)
        runs |= {job.name: job for job in found}
        figure += [job for job in found if path.stem == FIGURE and job.experiment.dataset.name == "cifar100"]
    console.print(f"assumed: {RATE / 1e12:.0f} TFLOP/s sustained, at least {LAYER * 1e6:.0f} µs a layer and step")
    console.print(f"  {'':36}{'runs':>6}{'rounds':>10}{'10^9 img':>9}{'10^18 op':>9}{'GPU h':>9}{f'h on {GPUS}':>9}")
    kinds: dict[str, list[Cost]] = {}
    for job in runs.values():
        e = job.experiment
        trains = isinstance(e.study, Federate | CentralizedStudy)
        kind = f"{e.study.name}, {e.dataset.name}, {e.model.name}" if trains else e.study.name
        kinds.setdefault(kind, []).append(cost_of(e))
    for kind, costs in sorted(kinds.items(), key=lambda item: -Cost.over(item[1]).seconds):
        show(kind, Cost.over(costs))
    show("the whole paper", Cost.over(cost for costs in kinds.values() for cost in costs))
    show(f"{FIGURE}, its part CIFAR-100", Cost.over(cost_of(job.experiment) for job in figure))
    run = next(job.experiment for job in figure if job.experiment.algorithm.name == "fedavg")
    alone = cost_of(run)
    show("one FedAvg run of it", alone)
    cohort_size = run.fl_scene.cohort_size(run.fl_scene.K)
    busiest = ceil(cohort_size / GPUS)
    hours = alone.seconds / 3600 * busiest / cohort_size
    console.print(f"  that run over {GPUS} GPUs: {hours:.1f} h, as the busiest has {busiest} of {cohort_size} clients")


if __name__ == "__main__":
    main()
