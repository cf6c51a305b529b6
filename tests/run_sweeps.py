"""A sweep of synthetic runs for every figure of the paper."""

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

from run_folders import PANS, make_listing, make_run

ALGORITHMS = ("fedavg", "fedprox", "fedopt", "scaffold", "moon")
OFF_ON = (("off", 0.0), ("mul", 0.1))
MUL = (0.05, 0.1, 0.15, 0.25, 0.5, 0.75)
ADD = (0.01, 0.05, 0.1, 0.15, 0.25)
ALL_A = [("off", 0.0), *(("add", A) for A in ADD), *(("mul", A) for A in MUL)]
VGG9 = {"dataset": ["cifar10"], "model": ["vgg9"]}
VGG11 = {"dataset": ["cifar10"], "model": ["vgg11"]}
PERIODS = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 32.0)

Grid = dict[str, Iterable[Any]]


def grid(**settings: Iterable[Any]) -> Grid:
    return settings


def scene(**settings: Iterable[Any]) -> Grid:
    return {f"fl_scene__{name}": values for name, values in settings.items()}


def off_on_study(
    study: str, dataset: str, model: str, seeds: Iterable[int] = (0, 1, 2), **more: Iterable[Any]
) -> list[Grid]:
    return [grid(study=[study], dataset=[dataset], model=[model], pan=OFF_ON, seed=seeds, **more)]


SWEEPS: dict[str, list[Grid]] = {
    "sf_prob": [grid(study=["kept_ratio"], study__neurons=[256, 512])],
    **{
        name: [grid(study=["shuffle_error"], model=[model])]
        for name, model in (("sf_func", "vgg13"), ("sf_func_mnist", "mlp"), ("sf_func_cifar", "resnet20"))
    },
    "sf_test": [
        grid(study=["shuffle_test"], dataset=[dataset], model=[model], pan=ALL_A[::2])
        for dataset, model in (("mnist", "mlp"), ("svhn", "vgg13"), ("cifar10", "resnet20"))
    ],
    "sf_fl": [
        grid(study=["kept_ratio"]),
        grid(dataset=["mnist", "cifar10"], pan=[("off", 0.0)], seed=[0, 1], **scene(alpha=[10.0, 1.0, 0.1])),
        grid(
            study=["shuffle_federate"], dataset=["mnist", "cifar10"], pan=[("off", 0.0)], fl_scene__alpha=[10.0],
            study__N_sf=[0.1, 0.2, 0.5, 1.0], seed=[0, 1],
        ),
    ],
    "wdiv": off_on_study("divergence", "mnist", "mlp", **scene(alpha=[1.0, 0.1], E=[5])),
    "wdiv_mnist_20": off_on_study("divergence", "mnist", "mlp", **scene(alpha=[1.0, 0.1], E=[20])),
    "wdiv_cifar_5": off_on_study("divergence", "cifar10", "vgg9", **scene(alpha=[1.0, 0.1], E=[5])),
    "assign": off_on_study("matching", "cifar10", "vgg9"),
    "assign_vgg_conv6": off_on_study("matching", "cifar10", "vgg9"),
    "assign_mlp_fc3": off_on_study("matching", "mnist", "mlp"),
    **{
        name: off_on_study("preference", dataset, model)
        for name, dataset, model in (
            ("prefer", "cifar10", "vgg9"), ("prefer_vgg_conv5", "cifar10", "vgg9"),
            ("prefer_vgg_conv4", "cifar10", "vgg9"), ("prefer_mlp_fc4", "mnist", "mlp"),
            ("prefer_mlp_fc3", "mnist", "mlp"),
        )
    },
    "compare_noniid": [
        grid(dataset=["femnist", "cifar10", "cifar100", "cinic10"], algorithm=ALGORITHMS, pan=PANS, seed=[0, 1])
    ],
    "compare_noniid_supp": [grid(dataset=["svhn", "gtsrb"], algorithm=ALGORITHMS, pan=PANS)],
    "compare_other": [
        grid(**VGG9, pan=PANS, seed=[0, 1, 2], **scene(K=[K], R=[R], alpha=[alpha], E=[E]))
        for K, R, alpha, E in ((16, 1.0, 0.5, 20), (20, 0.4, 1.0, 40))
    ]
    + [grid(**VGG9, pan=OFF_ON[:1], algorithm=["fed2"], seed=[0, 1], **scene(K=[16], R=[1.0], alpha=[0.5], E=[20]))]
    + [grid(**VGG9, pan=OFF_ON[:1], algorithm=["feddf"], seed=[0], **scene(K=[20], R=[0.4], alpha=[1.0], E=[40]))],
    "compare_more": [
        grid(**VGG9, pan=PANS, seed=[0, 1, 2], **scene(K=[16], R=[R], alpha=[alpha], E=[2]))
        for R, alpha in ((1.0, 0.1), (0.4, 0.5))
    ],
    **{
        name: [grid(dataset=[dataset], algorithm=ALGORITHMS, pan=OFF_ON, fl_scene__alpha=[10.0, 1.0, 0.5], seed=[0, 1])]
        for name, dataset in (
            ("compare_alpha", "cinic10"), ("compare_alpha_cifar10", "cifar10"), ("compare_alpha_cifar100", "cifar100"),
        )
    },
    **{
        name: [
            grid(dataset=["cifar10", "cifar100"], algorithm=[algorithm], pan=OFF_ON, fl_scene__K=[20, 50, 100, 200]),
            grid(dataset=["cifar10", "cifar100"], algorithm=[algorithm], pan=OFF_ON, fl_scene__E=[1, 2, 5, 10, 20]),
        ]
        for name, algorithm in (("compare_scenes", "fedavg"), ("compare_scenes_scaffold", "scaffold"))
    },
    "compare_hyper": [grid(dataset=["cifar10"], pan=[("off", 0.0), *(("mul", A) for A in MUL)], seed=[0, 1, 2])],
    **{
        name: [
            grid(dataset=[dataset], model=[model], pan=ALL_A),
            grid(dataset=[dataset], model=[model], pan=[("add", 0.05), ("mul", 0.1)], pan__T=PERIODS),
        ]
        for name, dataset, model in (("hyper_cifar10", "cifar10", "vgg11"), ("hyper_cifar100", "cifar100", "resnet20"))
    },
    "cent_acc": [
        grid(study=["centralize"], study__optimizer=["sgd", "adam"], dataset=[dataset], pan=[("off", 0.0)])
        for dataset in ("femnist", "gtsrb", "svhn", "cifar10", "cifar100", "cinic10")
    ],
    "cent": [grid(study=["centralize"], study__optimizer=["sgd"], dataset=["femnist", "cifar10"], pan=ALL_A)],
    "ot": [
        grid(study=["fusion"], dataset=[dataset], model=[model], pan=OFF_ON, seed=[0, 1])
        for dataset, model in (("mnist", "mlp"), ("cifar10", "vgg9"))
    ],
    "compare_gn": [
        grid(**VGG11, model__norm=["bn"], pan=[("off", 0.0)], fl_scene__bn_statistics=["average", "keep"]),
        grid(**VGG11, model__norm=["gn1", "gn2", "gn8", "gn32"], pan=[("off", 0.0)]),
        grid(**VGG11, model__norm=["gn1"], pan=[("mul", 0.1)]),
    ],
    "alpha": [grid(pan=OFF_ON, fl_scene__alpha=[10.0, 1.0, 0.5, 0.1], seed=[0, 1, 2])],
    "K": [grid(pan=OFF_ON, fl_scene__K=[20, 50, 100, 200])],
    "E": [grid(pan=OFF_ON, fl_scene__E=[1, 2, 5, 10, 20])],
    "A": [grid(pan=[*(("mul", A) for A in (0.0, *MUL)), *(("add", A) for A in ADD)])],
    "controls": [
        grid(pan=[*OFF_ON, ("add", 0.05)], model__init=["authors", "he"], probes=[["matching_gap"]], seed=[0, 1]),
        grid(pan=[("bias_init", 0.05), ("rates", 0.1)], model__init=["authors"], seed=[0, 1]),
        grid(pan=[("mul", 0.1)], model__init=["authors"], pan__order=["shuffled"], seed=[0, 1]),
        grid(pan=[("mul", 0.1)], model__init=["authors"], pan__per_client=["own"], seed=[0, 1]),
    ],
    "absorb": [
        grid(pan=[*OFF_ON, ("add", 0.05), ("frozen_bias", 0.05), ("after", 0.05), ("slope", 0.1)], seed=[0, 1]),
        grid(pan=[("w_asym", 0.1)], pan__n_fix=[8], seed=[0, 1]),
        grid(pan=[("sigma_asym", 0.5)], seed=[0, 1]),
        grid(pan=[("off", 0.0)], algorithm=["fedpfn"], seed=[0, 1]),
        grid(pan=[("off", 0.0)], model__head=["etf"], seed=[0, 1]),
    ],
    "T": [grid(pan=[("off", 0.0)]), grid(pan=[("add", 0.05), ("mul", 0.1)], pan__T=PERIODS)],
}  # fmt: skip


def make_sweep(runs: Path, name: str) -> None:
    folders = [
        make_run(runs, **dict(zip(settings, values, strict=True)))
        for settings in SWEEPS[name]
        for values in product(*settings.values())
    ]
    make_listing(runs, name, folders, swept=list(dict.fromkeys(s.replace("__", ".") for g in SWEEPS[name] for s in g)))
