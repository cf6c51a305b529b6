"""Settings of logger=wandb, and whether a W&B key is available."""

import os
from dataclasses import dataclass, field

from fedpan_exp.system.errors import require_choice

MODES = ("auto", "online", "offline", "disabled")


@dataclass
class WandbSettings:
    project: str = "fedpan_exp"
    entity: str | None = None
    mode: str = "auto"  # online if a key is available, else offline
    tags: list[str] = field(default_factory=list)
    weights: bool = False  # whether to upload the final weights as an artifact

    def __post_init__(self) -> None:
        require_choice("logger.wandb.mode", self.mode, MODES)

    def effective_mode(self) -> str:
        """The mode, after W&B's own variables: WANDB_DISABLED ends all logging, WANDB_MODE counts where it is auto."""
        if os.environ.get("WANDB_DISABLED", "").lower() in ("true", "1", "yes", "on"):
            return "disabled"
        wanted = os.environ.get("WANDB_MODE", "").replace("dryrun", "offline")
        return wanted if self.mode == "auto" and wanted in MODES else self.mode


def has_key() -> bool:
    """Whether `wandb login` or WANDB_API_KEY provides a key. Never prompts or prints."""
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb  # slow to import

    return wandb.login(prompt=False, verify=False)
