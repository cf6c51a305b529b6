"""python -m benchmarks.report: cost and page of a report of 500 synthetic runs of 1,000 rounds."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from copy import deepcopy
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from fedpan_exp import config
from fedpan_exp.studies import load_studies
from fedpan_exp.system.console import console
from fedpan_exp.system.paths import CONF
from fedpan_exp.tracking.identity import run_name

ROUNDS = 1000
ALGORITHMS = ("fedavg", "fedprox", "fedopt", "scaffold", "moon")
PANS = (("off", 0.0), ("add", 0.05), ("mul", 0.05), ("mul", 0.1))
ALPHAS = (10.0, 1.0, 0.5, 0.1, 0.05)
SEEDS = range(5)  # 5 x 4 x 5 x 5 = 500


def make_runs(runs: Path) -> list[str]:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        plain: Any = OmegaConf.to_container(compose("config", [f"fl_scene.H={ROUNDS}"]), resolve=True)
    names = []
    for algorithm, (mode, A), alpha, seed in product(ALGORITHMS, PANS, ALPHAS, SEEDS):
        settings = deepcopy(plain)
        settings["algorithm"]["name"], settings["pan"]["mode"], settings["pan"]["A"] = algorithm, mode, A
        settings["fl_scene"]["alpha"], settings["seed"] = alpha, seed
        names.append(run_name(settings))
        make_run(runs / names[-1], settings, np.random.default_rng(len(names)))
    return names


def make_run(folder: Path, settings: dict[str, Any], generator: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    rounds = np.arange(1, ROUNDS + 1)
    accuracy = 0.9 * (1 - np.exp(-rounds / 200)) + 0.01 * generator.standard_normal(ROUNDS)
    lines = [
        {
            **{
                "round": round_idx,
                "train/loss": float(np.exp(-round_idx / 300)),
                "train/samples": 3000,
                "train/steps": 50,
            },
            **{
                "clients/divergence": 1.234567890123 / round_idx,
                "comm/up_bytes": 34567890,
                "comm/down_bytes": 34567890,
            },
            **{"time/local_s": 0.4123456789, "time/round_s": 0.5123456789},
            **{"global/test_acc": value, "global/test_loss": 2.3 - 2 * value},
        }
        for round_idx, value in zip(rounds.tolist(), accuracy.tolist(), strict=True)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "config.yaml").write_text(yaml.dump(settings, Dumper=yaml.CSafeDumper))
    last = float(accuracy[-5:].mean())
    summary = {"summary/last5_acc": last, "summary/best_acc": float(accuracy.max()), "summary/rounds": ROUNDS}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "status.json").write_text(json.dumps({"status": "done", "versions": {}, "seed": settings["seed"]}))
    counts = generator.multinomial(600, generator.dirichlet(np.full(10, 0.1)), 100)
    rows = [f"{k},600,{','.join(map(str, row))}" for k, row in enumerate(counts.tolist())]
    labels = ",".join(f"label_{label}" for label in range(10))
    (folder / "partition.csv").write_text("\n".join([f"client,samples,{labels}", *rows]) + "\n")


def first_paint(page: Path) -> str:
    """How long headless Chromium takes to show something of the page, and to draw its curves."""
    if not find_spec("selenium") or not shutil.which("chromedriver"):
        return "first paint not measured: it needs selenium and chromedriver"
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))) as driver:
        began = time.perf_counter()
        driver.get(page.as_uri())
        while not driver.execute_script("return document.querySelector('#curves .legend')"):
            time.sleep(0.05)
        drawn = time.perf_counter() - began
        painted = driver.execute_script("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return f"first paint {painted / 1000:.1f} s, curves drawn {drawn:.1f} s"


def main() -> None:
    config.register(load_studies())
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        names = make_runs(runs)
        listing = {"sweep": "compare_alpha", "scale": "paper", "command": "", "swept": ["pan", "fl_scene.alpha"]}
        (runs / ".sweeps").mkdir()
        jobs = [{"run": name, "overrides": []} for name in names]
        (runs / ".sweeps" / "compare_alpha-paper.json").write_text(json.dumps({**listing, "jobs": jobs}))
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "fedpan_exp.report", str(runs), "--out", f"{folder}/report"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        page = Path(folder) / "report" / "index.html"
        size, paint = page.stat().st_size, first_paint(page)
    console.print(
        f"{len(names)} runs of {ROUNDS:,} rounds: {seconds:.1f} s ({after.ru_utime - before.ru_utime:.1f} of a core), "
        f"{after.ru_maxrss / 1024:.0f} MB, page {size / 1e6:.1f} MB, {paint}"
    )


if __name__ == "__main__":
    main()
