"""When a sweep with seed=auto stops adding seeds."""

import math
from dataclasses import dataclass

from fedpan_exp.system.errors import require


@dataclass
class Settle:
    """Seeds are added to a comparison until it is settled, or until the budget is spent."""

    margin: float = 0.5  # points of accuracy
    level: float = 0.95  # confidence of each comparison's interval, however often one looks
    seeds: int = 20
    hours: float = 8.0

    def __post_init__(self) -> None:
        require(0 < self.margin < math.inf, "settle.margin", "above 0", self.margin)
        require(0 < self.level < 1, "settle.level", "in (0, 1)", self.level)
        require(self.seeds >= 1, "settle.seeds", "at least 1", self.seeds)
        require(self.hours > 0, "settle.hours", "above 0", self.hours)
