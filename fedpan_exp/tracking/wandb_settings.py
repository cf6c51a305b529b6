"""The settings of logger=wandb, and whether there is a key."""

import os
from dataclasses import dataclass, field

from fedpan_exp.system.errors import require_choice


@dataclass
class WandbSettings:
    project: str = "fedpan_exp"
    entity: str | None = None
    mode: str = "auto"  # online where a key is there, else offline
    tags: list[str] = field(default_factory=list)
    weights: bool = False  # upload the final weights as an artifact

    def __post_init__(self) -> None:
        require_choice("logger.wandb.mode", self.mode, ("auto", "online", "offline"))


def has_key() -> bool:
    """From `wandb login` or WANDB_API_KEY; never a prompt, never a word."""
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb  # slow to import, and only needed here

    return wandb.login(prompt=False, verify=False)
