"""Which process trains which clients of a cohort."""

from collections.abc import Sequence


def balance(samples: Sequence[int], ranks: int) -> list[list[int]]:
    """Positions in the cohort per rank, such that all ranks have about equally many samples.

    The largest client goes first, to the rank with the fewest samples so far. Every rank keeps the cohort's order.
    """
    loads = [0] * ranks
    parts: list[list[int]] = [[] for _ in loads]
    for position in sorted(range(len(samples)), key=lambda position: -samples[position]):
        rank = loads.index(min(loads))
        loads[rank] += samples[position]
        parts[rank].append(position)
    return [sorted(part) for part in parts]
