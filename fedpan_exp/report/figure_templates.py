"""The paper's printed numbers and settings, and templates of figures that exist in several variants."""

from functools import partial
from typing import Any

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.plots import bars, curves, lines, neurons, scores, shuffling

ALPHA, K, E = "fl_scene.alpha", "fl_scene.K", "fl_scene.E"
FIVE = ("fedavg", "fedprox", "fedopt", "scaffold", "moon")
GAIN = Claim("gain by PANs, mean of all pairs (points)", "higher", "gain")
RISING = Claim("gain by alpha (points)", "larger for smaller alpha", "gains")
POWERS = (
    Claim("error of PAN+ grows as A to the power", 1.0, "power add"),
    Claim("error of PAN∘ grows as A to the power", "faster", "power mul"),
    Claim("influence of T", "hardly any, against A's", "T"),
)


def scene(*datasets: str, **settings: Any) -> dict[str, tuple]:
    """The paper's values by setting; `settings` are those of fl_scene."""
    named = {f"fl_scene.{name}": value if isinstance(value, tuple) else (value,) for name, value in settings.items()}
    return {"dataset": datasets, **named}


MAIN = {"K": 100, "R": 0.1, "E": 5}
INSIDE = {"K": 10, "R": 1.0, "H": 20}
DENSER = (
    Claim("fraction on the diagonal, PANs off", "sparser", "off"),
    Claim("fraction on the diagonal, PANs on", "denser", "on"),
    Claim("on - off (points)", "higher", "gain"),
)
CLOSER = (
    Claim("neurons of the same class, PANs off", "fewer", "off"),
    Claim("neurons of the same class, PANs on", "more", "on"),
    Claim("on - off (points)", "higher", "gain"),
)
OTHER = {
    "(16, 1, 0.5, 20)": {"FedAvg": 86.83, "FedAvg+PANs": 88.49, "FedProx": 85.32, "FedMA": 84.0, "Fed²": 88.29},
    "(20, 0.4, 1, 40)": {"FedAvg": 79.76, "FedAvg+PANs": 81.94, "FedProx": 78.60, "FedMA": 65.0, "FedDF": 80.36},
}
MORE = {
    "(16, 1, 0.1, 20)": {"FedAvg+PANs": 85.82, "FedMA": 83.91, "Fed²": 82.26},
    "(16, 0.4, 0.5, 20)": {"FedAvg+PANs": 82.87, "FedMA": 48.25, "Fed²": 81.23},
}
CENTRALIZED = {
    "femnist": {"sgd": 53.39, "adam": 54.25},
    "gtsrb": {"sgd": 86.96, "adam": 90.84},
    "svhn": {"sgd": 89.93, "adam": 91.13},
    "cifar10": {"sgd": 84.57, "adam": 87.13},
    "cifar100": {"sgd": 70.82, "adam": 67.22},
    "cinic10": {"sgd": 82.76, "adam": 81.99},
}
# The supplement: "more invariant to T" on Cifar100, "fluctuate a lot on Cifar10".
SPREADS = {"cifar10": "large", "cifar100": "small"}


def shuffle_error(name: str, network: str) -> PaperFigure:
    statement = "The error grows with A, hardly with T; linearly for PAN+, faster for PAN∘."
    return PaperFigure(
        name, f"Shuffle error, {network}", statement, shuffling.shuffle_error, {"model": (network,)}, POWERS
    )


def divergence(name: str, dataset: str, model: str, epochs: int) -> PaperFigure:
    setting = scene(dataset, **INSIDE, E=epochs, alpha=(1.0, 0.1)) | {"model": (model,)}
    claims = (Claim("layers in which PANs lower it, of all alphas", "all", "lower"),)
    title = f"Weight divergence, {model} on {dataset}, E={epochs}"
    return PaperFigure(name, title, "PANs lower the divergence of local weights.", bars.divergence, setting, claims)


def assignment(name: str, dataset: str, model: str, layer: str) -> PaperFigure:
    setting = scene(dataset, **INSIDE, alpha=1.0) | {"model": (model,), "study.E": (20,)}
    title = f"Optimal assignment, {model} {layer}"
    statement = "With PANs the diagonal is denser: neurons at the same position have the same function."
    return PaperFigure(name, title, statement, partial(neurons.assignment, layer=layer), setting, DENSER)


def preference(name: str, dataset: str, model: str, layer: str) -> PaperFigure:
    setting = scene(dataset, K=10, alpha=1.0) | {"model": (model,)}
    title = f"Preferred classes, {model} {layer}"
    statement = "With PANs more neurons prefer the same class in the global and in a local model."
    return PaperFigure(name, title, statement, partial(neurons.preference, layer=layer), setting, CLOSER)


def noniid(name: str, *datasets: str) -> PaperFigure:
    setting = scene(*datasets, **MAIN, alpha=0.1, H=1000) | {"algorithm": FIVE}
    claims = (Claim("cells in which PANs are better", "all", "better"), GAIN)
    title = f"Five algorithms on non-i.i.d. data: {', '.join(datasets)}"
    return PaperFigure(
        name, title, "PANs improve every algorithm (best of three PANs).", curves.off_on, setting, claims
    )


def by_alpha(name: str, dataset: str) -> PaperFigure:
    setting = scene(dataset, **MAIN, alpha=(10.0, 1.0, 0.5), H=200) | {"algorithm": FIVE}
    claims = (RISING, GAIN)
    title = f"Accuracy by alpha, five algorithms on {dataset}"
    return PaperFigure(
        name,
        title,
        "The smaller alpha, the larger the gain.",
        partial(lines.off_on, settings=(ALPHA,)),
        setting,
        claims,
    )


def by_scene(name: str, algorithm: str) -> PaperFigure:
    setting = scene("cifar10", "cifar100", alpha=0.1, H=400) | {"algorithm": (algorithm,)}
    claims = (Claim("gain by PANs, mean of all pairs (points)", (1.0, 2.0), "gain"),)
    title = f"Accuracy by K and by E, {algorithm}"
    statement = "PANs gain about 1 to 2 points on average."
    return PaperFigure(name, title, statement, partial(lines.off_on, settings=(K, E)), setting, claims)


def hyper_parameters(name: str, dataset: str, model: str) -> PaperFigure:
    setting = scene(dataset, **MAIN, alpha=0.1, H=2000) | {"model": (model,)}
    claims = (
        Claim("best A of PAN∘", "about 0.1", "best mul A"),
        Claim("best A of PAN+", "small", "best add A"),
        Claim("spread of PAN∘ over T", SPREADS[dataset], "spread mul T"),
    )
    title = f"T and A of PAN+ and PAN∘, {model} on {dataset}"
    statement = f"A larger A is worse; the spread over T is {SPREADS[dataset]}; many settings beat the baseline."
    return PaperFigure(name, title, statement, partial(lines.pan_against, settings=("pan.T", "pan.A")), setting, claims)


def other_methods(name: str, title: str, statement: str, printed: dict[str, dict[str, float]]) -> PaperFigure:
    ours = {"FedAvg": "off", "FedAvg+PANs": "on"}
    claims = [
        Claim(f"{method} in (K, R, alpha, E) = {row} (%)", value, f"{row} {ours[method]}")
        for row, methods in printed.items()
        for method, value in methods.items()
        if method in ours
    ]
    setting = scene("cifar10") | {"model": ("vgg9",)}
    return PaperFigure(name, title, statement, partial(scores.scenes, printed=printed), setting, claims)


def grid_figure(name: str, setting: str, statement: str, *claims: Claim) -> PaperFigure:
    short = setting.split(".")[-1]
    draw = partial(lines.pan_against if setting.startswith("pan.") else lines.off_on, settings=(setting,))
    return PaperFigure(name, f"Grid over {short}", statement, draw, {}, claims)
