"""The MLflow logger: the server of MLFLOW_TRACKING_URI, else the database mlflow.db in the folder of runs."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from fedpan_exp.tracking.logs import RunInfo, flat, numbers

if TYPE_CHECKING:
    from mlflow import MlflowClient

PARAMS_PER_CALL = 100  # MLflow's limit
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # else it announces that it creates its tables


class MlflowLogger:
    """Logs one MLflow run per run folder; settings are its parameters, pictures its artifacts."""

    def __init__(self, experiment: str, run: RunInfo):
        from mlflow.entities import Param  # slow to import

        self._folder = run.folder
        self._client, experiment_id = _connect(experiment, run.folder.parent.resolve())
        for earlier in self._client.search_runs([experiment_id], f"tags.fedpan_id = '{run.id}'"):
            self._client.delete_run(earlier.info.run_id)  # all of its rounds will be logged again
        tags = {"fedpan_id": run.id, "setting": run.group, "pan/on": str(not run.pans_off).lower()}
        self._run_id = self._client.create_run(experiment_id, run_name=run.name, tags=tags).info.run_id
        params = [Param(name, str(value)) for name, value in flat(run.settings).items()]
        for first in range(0, len(params), PARAMS_PER_CALL):
            self._client.log_batch(self._run_id, params=params[first : first + PARAMS_PER_CALL])

    def log_metrics(self, metrics: Mapping[str, Any], round_idx: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        values = [Metric(name, value, now, round_idx) for name, value in numbers(metrics).items()]
        self._client.log_batch(self._run_id, metrics=values)

    def finish(self, summary: Mapping[str, Any], status: str) -> None:
        for name, value in numbers(summary).items():
            self._client.log_metric(self._run_id, name, value)
        for picture in sorted(self._folder.glob("*.png")):
            self._client.log_artifact(self._run_id, str(picture))
        self._client.set_tag(self._run_id, "status", status)
        ended = {"done": "FINISHED", "interrupted": "KILLED"}.get(status, "FAILED")
        self._client.set_terminated(self._run_id, ended)


def _connect(experiment: str, runs: Path) -> "tuple[MlflowClient, str]":
    """Connect to the server, or create the database: one process does it, the others wait."""
    from mlflow import MlflowClient

    server = os.environ.get("MLFLOW_TRACKING_URI")
    with FileLock(runs / ".mlflow.lock"):
        client = MlflowClient(server or f"sqlite:///{runs / 'mlflow.db'}")
        found = client.get_experiment_by_name(experiment)
        if found:
            return client, found.experiment_id
        artifacts = None if server else (runs / "mlartifacts").as_uri()
        return client, client.create_experiment(experiment, artifact_location=artifacts)
