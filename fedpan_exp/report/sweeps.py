"""A sweep's listing, runs/.sweeps/<sweep>-<scale>.json, together with the runs it names."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedpan_exp.report.runs import Run


@dataclass(frozen=True)
class Sweep:
    """What one exhibit is drawn from."""

    name: str
    scale: str
    command: str
    swept: tuple[str, ...]
    runs: tuple[Run, ...]
    absent: tuple[str, ...] = ()  # runs that it names and that are not here
    others: tuple[Run, ...] = ()  # every run in the folders, for exhibits that look beyond their sweep

    @property
    def id(self) -> str:
        return f"{self.name}-{self.scale}"

    def of(self, *studies: str) -> list[Run]:
        return [run for run in self.runs if run.setting("study") in studies]

    def marks(self) -> list[str]:
        """What a reader must know before believing the picture."""
        words = []
        left = [run for run in self.runs if not run.whole]
        if left:
            kinds = Counter("damaged" if run.status == "done" else run.status for run in left)
            counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
            words.append(f"{len(left)} of {len(self.runs)} runs are not whole and left out ({counts})")
        if self.absent:
            words.append(f"{len(self.absent)} runs of the sweep are not here")
        makers = Counter(run.maker for run in self.runs if run.whole)
        if len(makers) > 1:
            counts = "; ".join(f"{maker}: {count} runs" for maker, count in makers.most_common(3))
            words.append(f"made by {len(makers)} versions of the program ({counts})")
        seeds = {run.seed for run in self.runs if run.whole}
        if len(seeds) == 1:
            words.append("one seed: no error bars, no deviations")
        return words


def read_listings(places: Iterable[Path], runs: Sequence[Run]) -> tuple[list[Sweep], list[str]]:
    """The sweeps, and a word on each listing that cannot be read. Parts of one sweep on several machines are joined."""
    by_name = {run.name: run for run in runs}
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    troubles = []
    for path in sorted(path for place in places for path in place.glob(".sweeps/*.json")):
        try:
            listing = json.loads(path.read_text(encoding="utf-8"))
            name, scale, command = (str(listing[key]) for key in ("sweep", "scale", "command"))
            named = [str(job["run"]) for job in listing["jobs"]]
            swept = [str(setting) for setting in listing["swept"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            troubles.append(f"{path} cannot be read as a sweep ({type(error).__name__}: {error})")
            continue
        whole = joined.setdefault((name, scale), {"command": command, "swept": swept, "runs": {}})
        whole["runs"] |= dict.fromkeys(named)
    return [
        Sweep(
            name,
            scale,
            whole["command"],
            tuple(whole["swept"]),
            tuple(by_name[run] for run in whole["runs"] if run in by_name),
            tuple(run for run in whole["runs"] if run not in by_name),
            tuple(runs),
        )
        for (name, scale), whole in joined.items()
    ], troubles
