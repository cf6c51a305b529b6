"""Accuracy and loss of one run, per round or per epoch."""

from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedpan_exp.report.records import records_with
from fedpan_exp.report.style import BLUE, GREY, ORANGE, save, tidy
from fedpan_exp.system.atomic_io import read_json


class Labels(NamedTuple):
    """Axis and legend labels; the defaults are those of federated training."""

    x: str = "round"
    model: str = "global model"
    train_loss: str = "training (local)"
    test_loss: str = "test (global model)"
    loss_title: str = "loss: local as the algorithm has it, test as cross entropy"


ROUNDS = Labels()
EPOCHS = Labels("epoch", "test", "training", "test", "loss: cross entropy")


def draw(folder: Path) -> Path | None:
    """metrics.jsonl and status.json -> curves.png; None for a run without training losses."""
    records = records_with(folder, "train/loss")
    if not records:
        return None
    labels = _labels(folder)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    accuracy = _series(records, "global/test_acc", scale=100)
    _line(left, accuracy, BLUE, labels.model)
    for name, label, style in (
        ("local/pre_acc", "local, before", ":"),
        ("local/post_acc", "local, after", "--"),
    ):
        _line(left, _series(records, name, scale=100), GREY, label, style)
    if accuracy[1]:
        best = max(accuracy[1])
        left.set_title(f"test accuracy: best {best:.2f}%, last {accuracy[1][-1]:.2f}%", fontsize=10)
    left.set(xlabel=labels.x, ylabel="accuracy (%)")
    _line(right, _series(records, "train/loss"), ORANGE, labels.train_loss)
    _line(right, _series(records, "global/test_loss"), BLUE, labels.test_loss)
    right.set(xlabel=labels.x, ylabel="loss")
    right.set_title(labels.loss_title, fontsize=10)
    for axes in (left, right):
        tidy(axes)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if axes.lines:
            axes.legend(frameon=False, fontsize=8)
    return save(figure, folder, "curves")


def _labels(folder: Path) -> Labels:
    """Centralized training has no rounds: the federated settings are irrelevant to it."""
    irrelevant = read_json(folder / "status.json").get("irrelevant", ())
    return EPOCHS if "fl_scene" in irrelevant else ROUNDS


def _series(records: list[dict], name: str, scale: float = 1) -> tuple[list[int], list[float]]:
    points = [(record["round"], record[name] * scale) for record in records if name in record]
    return [round_idx for round_idx, _ in points], [value for _, value in points]


def _line(axes: Axes, series: tuple[list[int], list[float]], colour: str, label: str, style: str = "-") -> None:
    if series[0]:
        marker = "o" if len(series[0]) < 3 else None  # a line of one point would be invisible
        axes.plot(*series, color=colour, label=label, linestyle=style, linewidth=1.6, marker=marker)
