"""Refusals that name the setting, the rule and the value in one line."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


class UserError(Exception):
    """Something the user can mend; the message, one line, is the whole report."""


class ConfigError(UserError):
    """A setting that cannot be run."""


class DataError(UserError):
    """A dataset that is missing, cut off or wrong."""


class Diverged(UserError):
    """A loss or weight that is not finite; the run ends, its records are kept."""


def require(holds: bool, setting: str, rule: str, value: object) -> None:
    if not holds:
        raise ConfigError(f"{setting} must be {rule}, got {value}")


def require_each(setting: str, values: Sequence[T], rule: str, holds: Callable[[T], bool]) -> None:
    """A list that is not empty, and the rule for each of its values."""
    require(len(values) > 0, setting, "a list of at least one value", list(values))
    for value in values:
        require(holds(value), setting, rule, value)


def require_choice(setting: str, value: str, choices: Iterable[str]) -> None:
    choices = list(choices)
    if value not in choices:
        raise ConfigError(f"{setting} must be {listed(choices, 'or')}, got {value}{hint(value, choices)}")


def first_line(error: BaseException) -> str:
    """What an error of somebody else's says, cut to fit into one line of ours."""
    words = (isinstance(error, OSError) and error.strerror) or str(error).strip() or type(error).__name__
    return words.splitlines()[0][:200]


def hint(wrong: str, names: Iterable[str]) -> str:
    """`; did you mean ...?` with the nearest name, or nothing where none is near."""
    near = difflib.get_close_matches(wrong, list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


def listed(names: Iterable[str], last: str = "and") -> str:
    """a, b and c"""
    *head, tail = names
    return f"{', '.join(head)} {last} {tail}" if head else tail
