"""The uploads of all ranks as one: below the algorithms, so that none of them knows of ranks."""

import traceback
from collections.abc import Callable, Iterable

from fedpan_exp.algorithms import Upload, average
from fedpan_exp.checks import Diverged, UserError
from fedpan_exp.federation.team import Dismissed, Team

KINDS: dict[str, Callable[[str], Exception]] = {"diverged": Diverged, "mistake": UserError, "bug": RuntimeError}


def joint(uploads: Iterable[Upload], team: Team, place: Callable[[], int]) -> Upload:
    """One upload that speaks for the clients of all ranks.

    What goes wrong on one rank ends all of them, with the same words: those of the first client of the round that had
    trouble. `place` tells which client in the round's order we are at.
    """
    trouble = None
    try:
        mean = average(uploads)
    except UserError as error:
        trouble = (place(), "diverged" if isinstance(error, Diverged) else "mistake", str(error))
    except Exception:
        trouble = (place(), "bug", f"on rank {team.rank}:\n{traceback.format_exc()}")
    reports = team.gather((trouble, 0.0, 0) if trouble else (None, mean.shares, mean.clients))
    troubles = [found for found, *_ in reports if found]
    if troubles:
        _, kind, words = min(troubles)
        raise KINDS[kind](words) if team.leads else Dismissed(0)
    shares = sum(part for _, part, _ in reports)
    vectors = (mean.weights, mean.buffers, *mean.extra.values())
    for vector in vectors:
        vector.mul_(mean.shares / shares)
    team.add(vectors)
    return Upload(mean.weights, mean.buffers, shares, mean.extra, sum(clients for *_, clients in reports))
