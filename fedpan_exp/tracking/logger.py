"""Where records go beside the run folder."""

import os
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedpan_exp.checks import first_line, require_choice
from fedpan_exp.console import warn


class Log(Protocol):
    """A second home for a run's records; the local files stay the truth."""

    def write(self, metrics: dict[str, float], turn: int) -> None: ...

    def finish(self, summary: dict[str, Any], status: str) -> None: ...


@dataclass
class LoggerSettings:
    kind: str = "none"
    project: str = "fedpan_exp"
    entity: str | None = None
    mode: str = "auto"  # online where a key is there, else offline
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_choice("logger.kind", self.kind, ("none", "wandb"))
        require_choice("logger.mode", self.mode, ("auto", "online", "offline"))

    def open(self, name: str, group: str, folder: str, settings: dict[str, Any]) -> Log | None:
        return WandbLog(self, name, group, folder, settings) if self.kind == "wandb" else None


class WandbLog:
    """One W&B run per run folder, on the axis `round`. Trouble with W&B costs a warning, never the run."""

    def __init__(self, logger: LoggerSettings, name: str, group: str, folder: str, settings: dict[str, Any]):
        self._run = None
        try:
            import wandb  # slow to import, and only needed here

            # Never a prompt: without a key the run is kept offline, and `wandb sync` uploads it later.
            has_key = bool(os.environ.get("WANDB_API_KEY") or wandb.api.api_key)
            mode = {"auto": "online" if has_key else "offline"}.get(logger.mode, logger.mode)
            if logger.mode == "auto" and not has_key:
                warn(f"no W&B key found: logging offline; upload later with `wandb sync {folder}/wandb/offline-run-*`")
            self._run = wandb.init(
                project=logger.project,
                entity=logger.entity,
                id=name.rsplit("-", 1)[-1],
                name=name,
                group=group,
                job_type=settings["study"]["name"],
                tags=logger.tags,
                config=settings,
                dir=folder,
                mode=mode,  # type: ignore[arg-type]
                resume="allow",
                settings=wandb.Settings(silent=True, console="off"),
            )
            self._run.define_metric("round")
            self._run.define_metric("*", step_metric="round")
        except Exception as error:
            self._give_up(error)

    def write(self, metrics: dict[str, float], turn: int) -> None:
        if self._run:
            try:
                self._run.log({"round": turn, **metrics})
            except Exception as error:
                self._give_up(error)

    def finish(self, summary: dict[str, Any], status: str) -> None:
        if self._run:
            try:
                self._run.summary.update({**summary, "status": status})
                self._run.finish(exit_code=0 if status == "done" else 1)
            except Exception as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._run = None
        warn(f"W&B failed ({first_line(error)}); the run goes on with local files only")
