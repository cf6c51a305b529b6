"""Errors that name the setting, the rule and the value in one line."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


class UserError(Exception):
    """An error that the user can fix. Its message, one line, is all that is printed."""


class ConfigError(UserError):
    """An invalid setting."""


class DataError(UserError):
    """A dataset that is missing, incomplete or wrong."""


class Diverged(UserError):
    """A loss or weight that is not finite. The run ends; its records stay."""


def require(condition: bool, setting: str, rule: str, value: object) -> None:
    if not condition:
        raise ConfigError(f"{setting} must be {rule}, got {value}")


def require_each(setting: str, values: Sequence[T], rule: str, holds: Callable[[T], bool]) -> None:
    """Require a non-empty list whose values all satisfy the rule."""
    require(len(values) > 0, setting, "a list of at least one value", list(values))
    for value in values:
        require(holds(value), setting, rule, value)


def require_choice(setting: str, value: str, choices: Iterable[str]) -> None:
    choices = list(choices)
    if value not in choices:
        raise ConfigError(f"{setting} must be {listed(choices, 'or')}, got {value}{hint(value, choices)}")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, at most 200 characters."""
    text = (isinstance(error, OSError) and error.strerror) or str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def hint(wrong: str, names: Iterable[str]) -> str:
    """Return `; did you mean ...?` with the closest name, or nothing if none is close."""
    near = difflib.get_close_matches(wrong, list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


def listed(names: Iterable[str], last: str = "and") -> str:
    """a, b and c"""
    *head, tail = names
    return f"{', '.join(head)} {last} {tail}" if head else tail
