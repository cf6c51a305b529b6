"""What a twin study finds: absorbed, not absorbed, or undecided."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """Whether the twin is the PAN network in other coordinates."""

    difference: float  # the largest of a weight
    tolerance: float
    rounding: float | None = None  # what rounding alone grows to; measured where the theory expects no difference

    def __str__(self) -> str:
        if self.difference < self.tolerance:
            return "absorbed"
        # A tolerance that rounding alone exceeds tells nothing.
        return "undecided" if self.rounding and self.rounding >= self.tolerance else "not absorbed"

    def summary(self) -> dict[str, float]:
        rounding = {} if self.rounding is None else {"summary/rounding": self.rounding}
        decided = {} if str(self) == "undecided" else {"summary/absorbed": int(str(self) == "absorbed")}
        return {"summary/difference": self.difference, **rounding, **decided}

    def describe(self, broken_conditions: Sequence[str]) -> str:
        text = f"{self}: largest difference of a weight {self.difference:.1e}"
        if self.rounding is not None:
            return f"{text}, by rounding alone {self.rounding:.1e}"
        return "; ".join([text, *(broken_conditions if str(self) == "not absorbed" else ())])
