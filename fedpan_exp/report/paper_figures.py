"""All figures and tables of the paper: its statement, the function that draws them, the paper's setting and claims."""

from functools import partial

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.figure_templates import (
    ALPHA,
    CENTRALIZED,
    GAIN,
    MORE,
    OTHER,
    RISING,
    E,
    K,
    assignment,
    by_alpha,
    by_scene,
    divergence,
    grid_figure,
    hyper_parameters,
    noniid,
    other_methods,
    preference,
    scene,
    shuffle_error,
)
from fedpan_exp.report.plots import curves, fusion, hyper, lines, misplaced, scores, shuffling
from fedpan_exp.report.plots.figure_result import values_of
from fedpan_exp.report.sweeps import Sweep

PAPER_FIGURES = [
    PaperFigure(
        "sf_prob", "Neurons kept by a shuffle", "The kept ratio R_kept falls with P_sf.", shuffling.kept_ratio,
        claims=(Claim("R_kept at P_sf=0 (%)", 100.0, "P_sf=0"), Claim("R_kept at P_sf=0.1 (%)", "high", "P_sf=0.1")),
    ),
    shuffle_error("sf_func", "vgg13"),
    shuffle_error("sf_func_mnist", "mlp"),
    shuffle_error("sf_func_cifar", "resnet20"),
    PaperFigure(
        "sf_test", "Shuffling trained networks", "With A=0 nothing changes; the larger A, the larger the drop.",
        shuffling.shuffle_test, {"dataset": ("mnist", "svhn", "cifar10"), "model": ("mlp", "vgg13", "resnet20")},
        (Claim("largest change of a plain network's accuracy (points)", 0.0, "change off"),),
    ),
    PaperFigure(
        "sf_fl", "How many neurons are misplaced in FL?",
        "Shuffling costs as much as non-i.i.d. data: on Cifar10, N_sf=0.2 equals alpha=0.1.", misplaced.draw,
        scene("cifar10", alpha=(10.0, 1.0, 0.1)),
        (
            Claim("neurons kept at N_sf=1 (%)", 84.0, "kept N_sf=1"),
            Claim("neurons kept at N_sf=0.2 (%)", 96.2, "kept N_sf=0.2"),
            Claim("N_sf=0.2 on i.i.d. data minus the smallest alpha (points)", 0.0, "drop"),
        ),
        uses_all_runs=True,
    ),
    divergence("wdiv", "mnist", "mlp", 5),
    divergence("wdiv_mnist_20", "mnist", "mlp", 20),
    divergence("wdiv_cifar_5", "cifar10", "vgg9", 5),
    assignment("assign", "cifar10", "vgg9", "conv5"),
    assignment("assign_vgg_conv6", "cifar10", "vgg9", "conv6"),
    assignment("assign_mlp_fc3", "mnist", "mlp", "fc3"),
    preference("prefer", "cifar10", "vgg9", "conv6"),
    preference("prefer_vgg_conv5", "cifar10", "vgg9", "conv5"),
    preference("prefer_vgg_conv4", "cifar10", "vgg9", "conv4"),
    preference("prefer_mlp_fc4", "mnist", "mlp", "head"),
    preference("prefer_mlp_fc3", "mnist", "mlp", "fc3"),
    noniid("compare_noniid", "femnist", "cifar10", "cifar100", "cinic10"),
    noniid("compare_noniid_supp", "svhn", "gtsrb"),
    other_methods("compare_other", "Other algorithms, Cifar10, VGG9", "FedAvg with PANs beats all of them.", OTHER),
    other_methods("compare_more", "More scenes, Cifar10, VGG9", "FedAvg with PANs beats FedMA and Fed².", MORE),
    by_alpha("compare_alpha", "cinic10"),
    by_alpha("compare_alpha_cifar10", "cifar10"),
    by_alpha("compare_alpha_cifar100", "cifar100"),
    by_scene("compare_scenes", "fedavg"),
    by_scene("compare_scenes_scaffold", "scaffold"),
    PaperFigure(
        "compare_hyper", "Best A, and how often each PAN is best", "A of about 0.1 is best; A=0 in 13% of settings.",
        hyper.draw, scene("cifar10"),
        (
            Claim("best A of PAN∘", "about 0.1", "best mul A"),
            Claim("settings best with PANs off (%)", 13.0, "off best"),
        ),
        uses_all_runs=True,
    ),
    hyper_parameters("hyper_cifar10", "cifar10", "vgg11"),
    hyper_parameters("hyper_cifar100", "cifar100", "resnet20"),
    PaperFigure(
        "cent_acc", "Centralized training", "The upper bound of FL, without PANs.",
        partial(scores.centralized, printed=CENTRALIZED), {"dataset": tuple(CENTRALIZED)},
        [
            Claim(f"{dataset}, {optimizer} (%)", value, f"{dataset} {optimizer}")
            for dataset, row in CENTRALIZED.items()
            for optimizer, value in row.items()
        ],
    ),
    PaperFigure(
        "cent", "Centralized training with PANs", "Slightly lower with larger A.",
        partial(lines.pan_against, settings=("pan.A",)), {"dataset": tuple(CENTRALIZED)},
        (Claim("best A of PAN+", "0", "best add A"), Claim("best A of PAN∘", "0", "best mul A")),
    ),
    PaperFigure(
        "ot", "Fusing two networks by optimal transport", "PANs make it slightly better.", fusion.draw,
        {"dataset": ("mnist", "cifar10"), "model": ("mlp", "vgg9"), "study.epochs": (20,)},
        (Claim("in the middle, OT with PANs minus OT without (points)", "slightly above 0", "middle"),),
    ),
    PaperFigure(
        "compare_gn", "BatchNorm and GroupNorm", "Only VGG11 gains from GroupNorm, most from one group.",
        partial(curves.variants, name=curves.norm_variant), scene("cifar10", "cifar100"),
        (Claim("best variant", "GN1 on VGG11", "best"),),
    ),
    grid_figure("alpha", ALPHA, "The smaller alpha, the larger the gain.", RISING, GAIN),
    grid_figure("K", K, "PANs gain 1 to 2 points.", Claim("gain (points)", (1.0, 2.0), "gain")),
    grid_figure("E", E, "PANs gain 1 to 2 points.", Claim("gain (points)", (1.0, 2.0), "gain")),
    grid_figure(
        "A", "pan.A", "A of about 0.1 is best for PAN∘; PAN+ degrades at a smaller A.",
        Claim("best A of PAN∘", "about 0.1", "best mul A"),
        Claim("best A of PAN+", "small", "best add A"),
    ),
    grid_figure(
        "T", "pan.T", "T matters little on Cifar100, much on Cifar10.",
        Claim("spread of PAN∘ over T", "small on Cifar100, large on Cifar10", "spread mul T"),
        Claim("spread of PAN+ over T", "small on Cifar100, large on Cifar10", "spread add T"),
    ),
]  # fmt: skip


def unlisted_figure(sweep: Sweep) -> PaperFigure:
    """The figure of a sweep that is not in the paper: PANs off and on against the first setting with several values."""
    swept = [name for name in sweep.swept if name not in ("pan", "seed") and len(values_of(sweep.runs, name)) > 1]
    setting = swept[0] if swept else "algorithm"
    draw = partial(lines.pan_against if setting.startswith("pan.") else lines.off_on, settings=(setting,))
    return PaperFigure(sweep.name, f"Sweep {sweep.name}", "Not a figure of the paper.", draw, claims=(GAIN,))
