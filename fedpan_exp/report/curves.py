"""Accuracy and loss of one run, round by round."""

from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedpan_exp.report.style import BLUE, GREY, ORANGE, save, tidy
from fedpan_exp.system.atomic_io import read_lines


class Words(NamedTuple):
    """What a study calls its turns and its measurements."""

    turn: str = "round"
    model: str = "global model"
    trained: str = "training (local)"
    tested: str = "test (global model)"
    losses: str = "loss: local as the algorithm has it, test as cross entropy"


ROUNDS = Words()
EPOCHS = Words("epoch", "test", "training", "test", "loss: cross entropy")


def draw_epochs(folder: Path) -> Path | None:
    """Of training at one place."""
    return draw(folder, EPOCHS)


def draw(folder: Path, words: Words = ROUNDS) -> Path | None:
    """metrics.jsonl -> curves.png; None where there is nothing to draw."""
    path = folder / "metrics.jsonl"
    records = read_lines(path) if path.exists() else []
    if not records:
        return None
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    accuracy = _series(records, "global/test_acc", scale=100)
    _line(left, accuracy, BLUE, words.model)
    for name, label, style in (
        ("local/pre_acc", "local, before", ":"),
        ("local/post_acc", "local, after", "--"),
    ):
        _line(left, _series(records, name, scale=100), GREY, label, style)
    if accuracy[1]:
        best = max(accuracy[1])
        left.set_title(f"test accuracy: best {best:.2f}%, last {accuracy[1][-1]:.2f}%", fontsize=10)
    left.set(xlabel=words.turn, ylabel="accuracy (%)")
    _line(right, _series(records, "train/loss"), ORANGE, words.trained)
    _line(right, _series(records, "global/test_loss"), BLUE, words.tested)
    right.set(xlabel=words.turn, ylabel="loss")
    right.set_title(words.losses, fontsize=10)
    for axes in (left, right):
        tidy(axes)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if axes.lines:
            axes.legend(frameon=False, fontsize=8)
    return save(figure, folder, "curves")


def _series(records: list[dict], name: str, scale: float = 1) -> tuple[list[int], list[float]]:
    points = [(record["round"], record[name] * scale) for record in records if name in record]
    return [turn for turn, _ in points], [value for _, value in points]


def _line(axes: Axes, series: tuple[list[int], list[float]], colour: str, label: str, style: str = "-") -> None:
    if series[0]:
        marker = "o" if len(series[0]) < 3 else None  # a line of one point cannot be seen
        axes.plot(*series, color=colour, label=label, linestyle=style, linewidth=1.6, marker=marker)
