"""python -m benchmarks.paper: estimate what the paper's figures and tables cost on GPUs, from the files in sweeps/."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from math import ceil

from benchmarks.workload import Workload, workload_of
from fedpan_exp import config
from fedpan_exp.config import Experiment
from fedpan_exp.studies import load_studies
from fedpan_exp.studies.federate.study import Federate
from fedpan_exp.studies.fusion.study import Fusion
from fedpan_exp.studies.shared.centralized import CentralizedStudy
from fedpan_exp.sweeping.jobs import Job, distinct, read_jobs
from fedpan_exp.system.console import console, quietly
from fedpan_exp.system.paths import SWEEPS

# Assumed, not measured: a GPU of 2020 or later, float32, eager mode.
FLOPS_PER_S = 10e12  # sustained
MIN_LAYER_S = 100e-6  # per step and layer: about ten kernel launches
GPUS = 8

IMAGES = {  # training and test, as published; FeMnist: a tenth of LEAF's 805,263, a fifth of them for testing
    **{"mnist": (60_000, 10_000), "svhn": (73_257, 26_032), "gtsrb": (39_209, 12_630), "cinic10": (90_000, 90_000)},
    **{"cifar10": (50_000, 10_000), "cifar100": (50_000, 10_000), "femnist": (64_421, 16_105)},
}
FEMNIST_CLIENTS = 355
EXTRA_FORWARD = {"moon": 2, "fedphp": 1}  # forward passes in addition to that of the trained network
FIGURE = "compare_noniid"
_workloads: dict[str, Workload] = {}


@dataclass
class Cost:
    """The cost of one run or several."""

    runs: int = 0
    rounds: int = 0  # or epochs, in centralized training
    samples: float = 0.0  # training samples
    operations: float = 0.0
    seconds: float = 0.0  # on one GPU

    @staticmethod
    def total(costs: "Iterable[Cost]") -> "Cost":
        return Cost(*map(sum, zip(*map(astuple, costs), strict=True)))


def cost_of(experiment: Experiment) -> Cost:
    """Count training and evaluation; plots and comparisons afterwards are negligible."""
    study, scene = experiment.study, experiment.fl_scene
    train, test = IMAGES[experiment.dataset.name]
    if isinstance(study, Federate):
        K = scene.K or FEMNIST_CLIENTS
        client_samples = train * (1 - scene.local_test) / K * scene.E
        rounds, client_rounds = scene.H, scene.H * scene.cohort_size(K)
        steps: float = client_rounds * scene.E * ceil(train / K / scene.B)
        samples, evaluations = client_rounds * client_samples, sum(map(experiment.evaluates, range(1, rounds + 1)))
    elif isinstance(study, CentralizedStudy):
        rounds = study.epochs * (2 if isinstance(study, Fusion) else 1)
        samples, evaluations = study.epochs * train, rounds
        steps = samples / study.B
    else:
        return Cost(runs=1)  # nothing is trained
    workload = _workload(experiment)
    forward = workload.evaluation.total * 1e9
    extra = samples * EXTRA_FORWARD.get(experiment.algorithm.name, 0) * forward
    training, evaluation = samples * workload.training.total * 1e9 + extra, evaluations * test * forward
    seconds = max(training / FLOPS_PER_S, steps * workload.layers * MIN_LAYER_S) + evaluation / FLOPS_PER_S
    return Cost(1, rounds, samples, training + evaluation, seconds)


def _workload(experiment: Experiment) -> Workload:
    key = f"{experiment.dataset.name} {experiment.model}"
    if key not in _workloads:
        _workloads[key] = workload_of(experiment)
    return _workloads[key]


def jobs_of(sweep: str) -> list[Job]:
    with quietly():
        return distinct(read_jobs(f"sweeps={sweep}", "scale=paper"))


def show(name: str, cost: Cost) -> None:
    hours = cost.seconds / 3600
    numbers = f"{cost.runs:6}{cost.rounds:10,}{cost.samples / 1e9:9.2f}{cost.operations / 1e18:9.2f}{hours:9.0f}"
    console.print(f"  {name:<36}{numbers}{hours / GPUS:9.1f}")


def main() -> None:
    config.register(load_studies())
    runs: dict[str, Job] = {}  # by name: figures share some
    figure: list[Job] = []
    for path in sorted(set(SWEEPS.glob("*.yaml")) - {SWEEPS / "search.yaml"}):  # the paper has no search
        jobs = jobs_of(path.stem)
        runs |= {job.name: job for job in jobs}
        figure += [job for job in jobs if path.stem == FIGURE and job.experiment.dataset.name == "cifar100"]
    console.print(
        f"assumed: {FLOPS_PER_S / 1e12:.0f} TFLOP/s sustained, at least {MIN_LAYER_S * 1e6:.0f} µs per layer and step"
    )
    console.print(f"  {'':36}{'runs':>6}{'rounds':>10}{'10^9 img':>9}{'10^18 op':>9}{'GPU h':>9}{f'h on {GPUS}':>9}")
    kinds: dict[str, list[Cost]] = {}
    for job in runs.values():
        experiment = job.experiment
        study, kind = experiment.study, experiment.study.name
        if isinstance(study, Federate | CentralizedStudy):
            kind = f"{kind}, {experiment.dataset.name}, {experiment.model.name}"
        kinds.setdefault(kind, []).append(cost_of(experiment))
    for kind, costs in sorted(kinds.items(), key=lambda item: -Cost.total(item[1]).seconds):
        show(kind, Cost.total(costs))
    show("the whole paper", Cost.total(cost for costs in kinds.values() for cost in costs))
    show(f"{FIGURE}, only CIFAR-100", Cost.total(cost_of(job.experiment) for job in figure))
    run = next(job.experiment for job in figure if job.experiment.algorithm.name == "fedavg")
    run_cost = cost_of(run)
    show("one FedAvg run of these", run_cost)
    cohort_size = run.fl_scene.cohort_size(run.fl_scene.K)
    busiest = ceil(cohort_size / GPUS)
    hours = run_cost.seconds / 3600 * busiest / cohort_size
    console.print(f"  this run on {GPUS} GPUs: {hours:.1f} h; the busiest trains {busiest} of {cohort_size} clients")


if __name__ == "__main__":
    main()
