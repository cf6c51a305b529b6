"""The uploads of all ranks as one: below the algorithms, so that none of them knows of ranks."""

import traceback
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torch import Tensor

from fedpan_exp.algorithms import ClientUpdate, add_up
from fedpan_exp.federation.team import Dismissed, Team
from fedpan_exp.system.errors import Diverged, UserError

T = TypeVar("T")
KINDS: dict[str, Callable[[str], Exception]] = {"diverged": Diverged, "mistake": UserError, "bug": RuntimeError}


def joint(
    uploads: Iterable[ClientUpdate], team: Team, place: Callable[[], int], tell: Callable[[], tuple[T, list[Tensor]]]
) -> tuple[ClientUpdate, list[T]]:
    """One upload that speaks for the clients of all ranks, and what each rank has to tell beside it.

    When all are trained, `tell` gives that, and vectors to be added up over the ranks, in place. What goes wrong on one
    rank ends all of them, with the words of the first client in the round that had trouble (`place` says where we are):
    one rank alone would have said the same.
    """
    report: tuple[Any, ...]
    try:
        total = add_up(uploads)
        told, beside = tell()
        report = (None, total.weights_total, total.clients, told)
    except UserError as error:
        report = ((place(), "diverged" if isinstance(error, Diverged) else "mistake", str(error)),)
    except Exception:
        report = ((place(), "bug", f"on rank {team.rank}:\n{traceback.format_exc()}"),)
    reports = team.gather(report)
    if troubles := [trouble for trouble, *_ in reports if trouble]:
        _, kind, words = min(troubles)
        raise KINDS[kind](words) if team.leads else Dismissed(0)
    _, shares, clients, all_told = zip(*reports, strict=True)
    team.add([*total.vectors, *beside])
    total.weights_total, total.clients = sum(shares), sum(clients)
    return total.mean(), list(all_told)
