"""Log PANs on minus off to W&B, one run per pair: a W&B panel cannot subtract one run from another."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from fedpan_exp.report.frame import VALUE, column, curves, key, load
from fedpan_exp.tracking.identity import run_name
from fedpan_exp.tracking.logs import RunInfo
from fedpan_exp.tracking.runs import RunEntry
from fedpan_exp.tracking.wandb_settings import WandbSettings

FOLDER = "pairs"  # in the folder of the run with PANs on
CURVES = {"paired/test_acc": ("global/test_acc", 100), "paired/train_loss": ("train/loss", 1)}  # accuracy in points
GAIN = "paired/last5_acc"  # in points


class Pair(NamedTuple):
    on: Path
    off: Path
    gain: float  # last-five accuracy in points

    def differences(self) -> pd.DataFrame:
        """One row per round, one column per name of CURVES."""
        differences = {}
        for name, (metric, scale) in CURVES.items():
            both = curves([self.on, self.off], metric)
            if both.shape[1] == 2:
                differences[name] = scale * (both.iloc[:, 0] - both.iloc[:, 1])
        return pd.DataFrame(differences)


def find_pairs(folder: Path) -> list[Pair]:
    """Complete runs with PANs on, each with the run that differs in nothing but that PANs are off."""
    runs = load(folder)
    runs = runs[runs["complete"].astype(bool) & column(runs, VALUE).notna()]
    keys = key(runs, "pan")
    off = {keys[name]: run for name, run in runs[runs["pans"] == "off"].iterrows()}
    with_pans = [(run, off.get(keys[name])) for name, run in runs[runs["pans"] == "on"].iterrows()]
    return [
        Pair(on["folder"], baseline["folder"], 100 * (on[VALUE] - baseline[VALUE]))
        for on, baseline in with_pans
        if baseline is not None
    ]


def log_pairs(folder: Path, settings: WandbSettings) -> Iterator[Pair]:
    """Log every pair; yield it when that is done."""
    from fedpan_exp.tracking.wandb_log import WandbLogger  # slow to import

    for pair in find_pairs(folder):
        entry = RunEntry(pair.on)
        (pair.on / FOLDER).mkdir(exist_ok=True)
        info = RunInfo(
            name=f"{entry.name}-minus-off",
            id=f"pair-{entry.status_file['id']}",
            group=run_name(entry.settings, (*entry.status_file["irrelevant"], "seed"), pans_off=False),
            folder=pair.on / FOLDER,
            settings={**entry.settings, "study": {"name": "pair"}},
            pans_off=False,
            is_resumed=False,
        )
        logger = WandbLogger(settings, info)
        for round_idx, differences in pair.differences().iterrows():
            logger.log_metrics(differences.dropna().to_dict(), int(round_idx))
        logger.finish({GAIN: pair.gain}, "done")
        yield pair
