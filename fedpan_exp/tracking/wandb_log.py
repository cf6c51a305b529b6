"""The Weights & Biases logger. A failure of W&B costs one warning, never the run."""

import contextlib
import csv
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any, Literal

import wandb

from fedpan_exp.system.console import print_status, warn
from fedpan_exp.system.errors import first_line
from fedpan_exp.tracking.logs import RunInfo, flat
from fedpan_exp.tracking.wandb_settings import WandbSettings, has_key

# Keep the messages of W&B's telemetry off the console.
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
TIMEOUT_S = 30  # a server that does not answer within this time counts as unreachable


class WandbLogger:
    """Logs one W&B run per run folder, with the same id, against `round`."""

    def __init__(self, settings: WandbSettings, run: RunInfo):
        self._settings, self._folder = settings, run.folder
        self._run: Any = None  # None: W&B has failed
        self._rounds_logged = 0  # by an earlier process, before a resume
        self._last_round = 0
        self._try(lambda: self._start(run))

    def log_metrics(self, metrics: Mapping[str, Any], round_idx: int) -> None:
        self._last_round = round_idx
        if self._run and round_idx > self._rounds_logged:
            self._try(lambda: self._run.log({"round": round_idx, **metrics}, step=round_idx))

    def finish(self, summary: Mapping[str, Any], status: str) -> None:
        if self._run:
            self._try(lambda: self._finish(summary, status))

    def _start(self, run: RunInfo) -> None:
        """Log online if possible, else offline, without a prompt. `runs sync` uploads offline runs later."""
        mode = self._settings.effective_mode()
        if mode != "offline":
            try:
                if has_key():
                    self._init(run, "online")
                    return
                reason = "no W&B key found"
            except Exception as error:
                reason = f"W&B cannot be reached ({first_line(error)})"
                wandb.teardown()
            later = f"upload later with `python -m fedpan_exp.runs sync {self._folder.parent}`"
            if mode == "auto":
                print_status("wandb", f"{reason}: logging offline; {later}")
            else:
                warn(f"{reason}: logging offline; {later}")
        self._init(run, "offline")

    def _init(self, run: RunInfo, mode: Literal["online", "offline"]) -> None:
        for old in run.folder.glob("wandb/offline-run-*"):  # the new log will contain all rounds
            shutil.rmtree(old, ignore_errors=True)
        self._run = wandb.init(
            project=self._settings.project,
            entity=self._settings.entity,
            id=run.id if "WANDB_SWEEP_ID" not in os.environ else None,  # a W&B agent has already set the id
            name=run.name,
            group=run.group,
            job_type=run.settings["study"]["name"],
            tags=self._settings.tags,
            config={**flat(run.settings), "setting": run.group, "pan/on": not run.pans_off},
            dir=str(run.folder.resolve()),  # absolute: the process of W&B may have another working directory
            mode=mode,
            resume="allow" if run.is_resumed else None,
            settings=wandb.Settings(
                silent=True,
                console="off",
                init_timeout=TIMEOUT_S,
                finish_timeout=TIMEOUT_S,
                finish_timeout_raises=True,
            ),
        )
        self._rounds_logged = int(self._run.summary.get("round", 0)) if run.is_resumed else 0
        self._run.define_metric("round")
        self._run.define_metric("*", step_metric="round")
        self._run.define_metric("global/test_acc", step_metric="round", summary="max,last")

    def _finish(self, summary: Mapping[str, Any], status: str) -> None:
        media: dict[str, Any] = {path.stem: wandb.Image(str(path)) for path in sorted(self._folder.glob("*.png"))}
        for table in sorted(self._folder.glob("partition.csv")):
            header, *rows = csv.reader(table.read_text(encoding="utf-8").splitlines())
            media[f"{table.stem}_table"] = wandb.Table([*header], [list(map(int, row)) for row in rows])
        self._run.log(media, step=self._last_round)  # at the last round, so that they add no step
        weights = self._folder / "weights.safetensors"
        if self._settings.weights and weights.exists():
            artifact = wandb.Artifact(f"weights-{self._run.id}", type="model")
            artifact.add_file(str(weights))
            self._run.log_artifact(artifact)
        self._run.summary.update({**summary, "status": status})
        self._run.finish(exit_code=0 if status == "done" else 1)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._run = None
            with contextlib.suppress(Exception):  # otherwise W&B tries again, and fails again, when Python exits
                wandb.teardown()
            warn(f"W&B failed ({first_line(error)}); the run continues with local files only")
