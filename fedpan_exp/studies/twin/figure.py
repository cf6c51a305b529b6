"""A PAN network and its plain twin: two curves on top of each other, their difference below on a log scale."""

from pathlib import Path

from fedpan_exp.report.claims import Claim, PaperFigure
from fedpan_exp.report.figure_result import grid
from fedpan_exp.report.style import BLUE, GREY, ORANGE, save
from fedpan_exp.studies.shared.figures import records_with
from fedpan_exp.studies.twin.variants import compare_variants
from fedpan_exp.system.atomic_io import read_json

COLUMNS = ("round", "pan/test_acc", "twin/test_acc", "pan/test_loss", "twin/test_loss", "twin/difference")
SMALLEST = 1e-17  # shown for 0, which a log scale does not have


def draw_run(folder: Path) -> Path | None:
    """metrics.jsonl -> twin.png; None for a run of another study."""
    lines = records_with(folder, *COLUMNS)
    if lines.empty:
        return None
    figure, axes = grid(2, 2, 4.4, 2.6)
    for panel, name in zip(axes[0], ("acc", "loss"), strict=True):
        panel.plot(lines["round"], lines[f"pan/test_{name}"], color=BLUE, linewidth=4, alpha=0.5, label="PAN")
        panel.plot(lines["round"], lines[f"twin/test_{name}"], color=ORANGE, linewidth=1.2, label="plain twin")
        panel.set(ylabel={"acc": "test accuracy", "loss": "test loss"}[name])
    axes[0, 0].legend(frameon=False, fontsize=8)
    loss_difference = (lines["pan/test_loss"] - lines["twin/test_loss"]).abs()
    differences = {"largest difference of a weight": lines["twin/difference"], "difference of losses": loss_difference}
    for panel, (label, values) in zip(axes[1], differences.items(), strict=True):
        panel.semilogy(lines["round"], values.clip(lower=SMALLEST), "o-", color=GREY, markersize=3)
        panel.set(xlabel="round", ylabel=label)
    if "summary/absorbed" in (summary := read_json(folder / "summary.json")):
        axes[1, 0].set_title("absorbed" if summary["summary/absorbed"] else "not absorbed", fontsize=9)
    return save(figure, folder, "twin")


GAIN = "the position helps"

RUN_PLOTS = (draw_run,)
PAPER_FIGURES = (
    PaperFigure(
        "controls", "Controls for the position", "PANs gain by the position of neurons.", compare_variants, order=12,
        claims=(
            Claim("gain by PAN+ (points)", GAIN, "PAN+"),
            Claim("gain by initial biases alone (points)", "not measured", "bias_init"),
            Claim("gain by PAN∘ (points)", GAIN, "PAN∘"),
            Claim("gain by learning rates alone (points)", "not measured", "rates"),
        ),
    ),
    PaperFigure(
        "absorb", "PANs that training cannot absorb", "PANs gain by the position of neurons.", compare_variants,
        order=12, claims=(Claim("gain by PAN+ (points)", GAIN, "PAN+"), Claim("gain by PAN∘ (points)", GAIN, "PAN∘")),
    ),
)  # fmt: skip
