"""python -m fedpan_exp.dashboard: create a W&B workspace for a project of these runs."""

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpan_exp.system.atomic_io import write_text
from fedpan_exp.system.console import console, exit_on_error
from fedpan_exp.system.errors import UserError, first_line
from fedpan_exp.tracking.wandb_settings import has_key

if TYPE_CHECKING:
    from wandb_workspaces.workspaces import Workspace

ACCURACY = "summary/last5_acc"
SWEPT = {  # the paper's grids
    "fl_scene/alpha": "label skew alpha",
    "fl_scene/K": "clients K",
    "fl_scene/E": "local epochs E",
    "pan/A": "amplitude A",
    "pan/T": "period T",
}
LOGARITHMIC = ("fl_scene/alpha", "fl_scene/K")
EXAMPLES = """\
examples:
  python -m fedpan_exp.dashboard --entity my-team --project fedpan_exp      create the workspace, print its address
  python -m fedpan_exp.dashboard --dry-run                                  write dashboard.json only, no network
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.dashboard",
        description="Curves by algorithm with PANs off and on, accuracy against alpha, K, E, A and T, weight\n"
        "divergence, bytes to the target accuracy. Seeds are grouped, with their standard deviation as a band.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--entity", default=os.environ.get("WANDB_ENTITY"), help="W&B user or team")
    parser.add_argument("--project", default="fedpan_exp", help="the same as logger.wandb.project")
    parser.add_argument("--name", default="PANs", help="name of the workspace")
    parser.add_argument(
        "--dry-run",
        nargs="?",
        const="dashboard.json",
        metavar="FILE",
        help="only write the workspace to this JSON file",
    )
    args = parser.parse_args()
    with exit_on_error():
        run(args.entity, args.project, args.name, args.dry_run)


def run(entity: str | None, project: str, name: str, file: str | None) -> None:
    try:
        board = workspace(entity or "entity", project, name)
    except ImportError:
        raise UserError("the dashboard needs a package: pip install wandb-workspaces") from None
    if file:
        write_text(Path(file), json.dumps(as_json(board), indent=2) + "\n")
        console.print(f"{panels(board)} panels, in {file}", markup=False)
        return
    if not entity:
        raise UserError("--entity must be a W&B user or team, got none; or use --dry-run")
    if not has_key():
        raise UserError("no W&B key found; run `wandb login`, or use --dry-run")
    try:
        board.save()
    except Exception as error:  # no network, no access to the project: W&B raises many types
        raise UserError(f"W&B rejected the workspace ({first_line(error)})") from None
    console.print(f"{panels(board)} panels: {board.url}", markup=False)


def workspace(entity: str, project: str, name: str) -> "Workspace":
    import wandb_workspaces.reports.v2 as panel
    import wandb_workspaces.workspaces as ws

    def curve(metric: str, title: str, x: str = "round") -> Any:
        return panel.LinePlot(
            title=title, x=x, y=[metric], groupby_aggfunc="mean", groupby_rangefunc="stddev", aggregate=True
        )

    def scatter(setting: str, label: str) -> Any:
        y = panel.SummaryMetric(ACCURACY)
        return panel.ScatterPlot(
            title=f"accuracy against {label}", x=panel.Config(setting), y=y, log_x=setting in LOGARITHMIC
        )

    def bars(metric: str, title: str) -> Any:
        return panel.BarPlot(title=title, metrics=[metric], groupby_aggfunc="mean", groupby_rangefunc="stddev")

    sections = [
        ws.Section(
            "Curves, by algorithm and PANs off or on",
            panels=[
                curve("global/test_acc", "test accuracy"),
                curve("global/test_loss", "test loss"),
                curve("train/loss", "local loss"),
                curve("clients/divergence", "weight divergence of the clients"),
            ],
            is_open=True,
        ),
        ws.Section("The paper's grids", panels=[scatter(*swept) for swept in SWEPT.items()], is_open=True),
        ws.Section(
            "Cost",
            panels=[
                bars(ACCURACY, "accuracy, mean of the last five rounds"),
                bars("summary/rounds_to_target", "rounds to the target accuracy"),
                bars("summary/bytes_to_target", "bytes to the target accuracy"),
                bars("summary/time/round_s", "seconds in rounds"),
            ],
            is_open=True,
        ),
        ws.Section("Pictures of partition and curves", panels=[panel.MediaBrowser(media_keys=["partition", "curves"])]),
    ]
    groupby: list[Any] = [ws.Config(name) for name in ("algorithm/name", "pan/on", "setting")]  # over seeds
    return ws.Workspace(
        entity, project, name, sections, runset_settings=ws.RunsetSettings(groupby=groupby), auto_generate_panels=False
    )


def as_json(board: "Workspace") -> dict[str, Any]:
    return json.loads(board._to_model().model_dump_json(by_alias=True))


def panels(board: "Workspace") -> int:
    return sum(len(section.panels) for section in board.sections)


if __name__ == "__main__":
    main()
