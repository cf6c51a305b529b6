"""Console output while something runs: a live bar in a terminal, one plain line per event in a log file."""

import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, TypeVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
from rich.table import Table

from fedpan_exp.system.errors import UserError

T = TypeVar("T")


class Output(Console):
    """Ends the program like an interruption when nobody reads its output any more, as in `... | head`."""

    def on_broken_pipe(self) -> None:
        from fedpan_exp.system.signals import OutputClosed

        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains when it exits
        raise OutputClosed


console = Output(highlight=False, soft_wrap=True)
error_console = Console(highlight=False, soft_wrap=True, stderr=True)
bar_console = Console(highlight=False)  # for bars while lines are off

WHOLE = 24  # characters of a table's cell that are not divided
_kept_back: list[Console] = []  # the console, while its lines are kept back

LOG_LINES = 50  # lines of progress in a log file, about, however long the work is


def print_status(topic: str, text: str, style: str | None = None) -> None:
    console.print(f"  [bold]{topic:<9}[/bold]", end=" ")
    console.print(text, markup=False, style=style)


def warn(text: str) -> None:
    error_console.print(f"fedpan_exp: warning: {text}", markup=False, style="yellow")


def plain_table(columns: Iterable[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = ()) -> Table:
    """A table without lines; the columns named in `numbers` are aligned to the right.

    On a narrow console long texts continue on the next line. Numbers and names stay whole.
    """
    table, rows = Table(box=None, padding=(0, 2, 0, 0)), list(rows)
    for i, name in enumerate(columns):
        longest = max(len(text) for text in [*name.split(), *(row[i] for row in rows)]) if name or rows else 0
        justify: Literal["right", "left"] = "right" if name in numbers else "left"
        table.add_column(name, justify=justify, overflow="fold", min_width=min(longest, WHOLE))
    for row in rows:
        table.add_row(*row)
    return table


@contextmanager
def exit_on_error(interrupted: str = "") -> Iterator[None]:
    """End the program with one line for a user's error; on Ctrl-C with the line `interrupted`, if any."""
    try:
        yield
    except UserError as error:
        error_console.print(f"fedpan_exp: {error}", markup=False)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        if interrupted:
            error_console.print(f"fedpan_exp: {interrupted}", markup=False)
        raise SystemExit(130) from None


@contextmanager
def _silenced(*consoles: Console) -> Iterator[None]:
    previous = [each.quiet for each in consoles]
    for each in consoles:
        each.quiet = True
    try:
        yield
    finally:
        for each, was_quiet in zip(consoles, previous, strict=True):
            each.quiet = was_quiet


def without_warnings() -> AbstractContextManager[None]:
    return _silenced(error_console)


def quietly() -> AbstractContextManager[None]:
    """Print nothing but warnings."""
    return _silenced(console, bar_console)


def bars_only() -> AbstractContextManager[None]:
    """Print nothing that stays but warnings: progress is a bar that disappears, and in a log file nothing."""
    return _silenced(console)


@contextmanager
def lines_after_start() -> Iterator[None]:
    """Keep lines back until `show_lines`, or until a bar is shown. An error before that is then the only line."""
    console.begin_capture()
    _kept_back.append(console)
    try:
        yield
    except UserError:
        if _kept_back:
            _kept_back.pop().end_capture()
        raise
    finally:
        show_lines()


def show_lines() -> None:
    """Print the lines that were kept back, if any."""
    while _kept_back:
        text = _kept_back.pop().end_capture()
        try:
            console.file.write(text)
            console.file.flush()
        except BrokenPipeError:
            console.on_broken_pipe()


class ProgressBar:
    """Progress through `total` units of work, as a bar or as lines; `done` of them were done earlier."""

    def __init__(self, total: int, bar: Progress | None, label: str, log_lines: int = LOG_LINES, done: int = 0):
        self.total, self.label, self.done, self._skipped = total, label, done, done
        self._log_lines = log_lines
        self._bar = bar
        self._task = bar.add_task(label, total=total, state="") if bar else None
        self._started = time.perf_counter()
        self._lines = 0

    def advance(self, units: int = 1) -> None:
        self.done += units
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=self.done)

    def track(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items; each counts as one unit when the next one is requested."""
        for item in items:
            yield item
            self.advance()

    def describe(self, text: str) -> None:
        """Show the current state of the work; in a log file at most about `log_lines` times."""
        text = f"{text}  {clock(self.seconds_left())} left"
        if self._bar and self._task is not None:
            self._bar.update(self._task, state=text)
        elif self.done * self._log_lines >= self._lines * self.total or self.done == self.total:
            self._lines = self.done * self._log_lines // self.total + 1
            console.print(f"{self.label}  {text}", markup=False)

    def elapsed(self) -> float:
        return time.perf_counter() - self._started

    def seconds_left(self) -> float:
        return self.elapsed() * (self.total - self.done) / max(self.done - self._skipped, 1)


@contextmanager
def progress_bar(label: str, total: int, log_lines: int = LOG_LINES, done: int = 0) -> Iterator[ProgressBar]:
    """Show progress with a description of the current state; `done` units were done earlier."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with _bar(*columns) as bar:
        yield ProgressBar(total, bar, label, log_lines, done)


@contextmanager
def download(label: str, size: int) -> Iterator[ProgressBar]:
    """Show progress in bytes."""
    with _bar(TextColumn("{task.description}"), BarColumn(), DownloadColumn()) as bar:
        if bar is None:
            print_status("fetch", label)
        yield ProgressBar(size, bar, label)


@contextmanager
def _bar(*columns: ProgressColumn) -> Iterator[Progress | None]:
    show_lines()
    if not console.is_terminal:
        yield None
        return
    lines_are_off = console.quiet
    with Progress(*columns, console=bar_console if lines_are_off else console, transient=lines_are_off) as bar:
        yield bar


def counted(number: int, noun: str) -> str:
    """1 run, 2 runs"""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clock(seconds: float) -> str:
    """1:05 or 2:03:40"""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
