"""The Trackio logger: a local database of the user (TRACKIO_DIR), shown by `trackio show`."""

import contextlib
import io
from collections.abc import Mapping
from typing import Any

from fedpan_exp.tracking.logs import RunInfo, flat, numbers


class TrackioLogger:
    """Logs one Trackio run per run folder, of the same name and group."""

    def __init__(self, project: str, run: RunInfo):
        import trackio  # slow to import

        self._trackio, self._folder = trackio, run.folder
        self._last_round = 0
        config = {**flat(run.settings), "setting": run.group, "pan/on": not run.pans_off}
        with contextlib.redirect_stdout(io.StringIO()):  # it prints how to open its page
            self._delete_earlier(project, run.name)
            self._run = trackio.init(
                project=project, name=run.name, group=run.group, config=config, embed=False, auto_log_gpu=False
            )

    def log_metrics(self, metrics: Mapping[str, Any], round_idx: int) -> None:
        self._last_round = round_idx
        self._run.log({"round": round_idx, **numbers(metrics)}, step=round_idx)

    def finish(self, summary: Mapping[str, Any], status: str) -> None:
        pictures = {path.stem: self._trackio.Image(str(path)) for path in sorted(self._folder.glob("*.png"))}
        self._run.log({**pictures, **numbers(summary), "status": status}, step=self._last_round)
        with contextlib.redirect_stdout(io.StringIO()):
            self._trackio.finish()  # not that of the run, which would be finished again when Python exits

    def _delete_earlier(self, project: str, name: str) -> None:
        """Delete the run that an interrupted process logged: all of its rounds will be logged again."""
        with contextlib.suppress(ValueError):  # there is no such project yet
            for run in self._trackio.Api().runs(project):
                if run.name == name:
                    run.delete()
