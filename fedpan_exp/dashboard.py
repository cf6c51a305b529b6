"""python -m fedpan_exp.dashboard: create a W&B workspace for a project of these runs."""

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpan_exp.dashboard_pairs import GAIN, log_pairs
from fedpan_exp.system.atomic_io import write_text
from fedpan_exp.system.console import console, exit_on_error
from fedpan_exp.system.errors import UserError, first_line
from fedpan_exp.tracking.wandb_settings import WandbSettings, has_key

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
PROBES = {
    "divergence": "weight divergence, by layer",
    "cosine": "cosine of a client's update and the mean update, by layer",
    "gradient_variance": "variance of the clients' gradients, by layer",
    "matching": "neurons matched to their own place, by layer",
    "matching_gap": "accuracy gained by matching before averaging",
    "barrier": "loss barrier between a client and the mean",
    "swap_cost": "cost of swapping two neurons, by layer",
    "preference": "classes that neurons prefer, by layer",
}
LOGARITHMIC = ("fl_scene/alpha", "fl_scene/K")
EXAMPLES = """\
examples:
  python -m fedpan_exp.dashboard --entity my-team --project fedpan_exp      create the workspace, print its address
  python -m fedpan_exp.dashboard --entity my-team --pairs runs              also log PANs on minus off, pair by pair
  python -m fedpan_exp.dashboard --dry-run                                  write dashboard.json only, no network
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fedpan_exp.dashboard",
        description="Curves by algorithm with PANs off and on, their paired differences, accuracy against alpha, K,\n"
        "E, A and T, partitions, alignment probes, bytes to the target accuracy. Seeds are grouped, with their\n"
        "standard deviation as a band.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--entity", default=os.environ.get("WANDB_ENTITY"), help="W&B user or team")
    parser.add_argument("--project", default="fedpan_exp", help="the same as logger.wandb.project")
    parser.add_argument("--name", default="PANs", help="name of the workspace")
    parser.add_argument(
        "--pairs",
        type=Path,
        metavar="RUNS",
        help="also log PANs on minus off for the runs in this folder, one W&B run per pair",
    )
    parser.add_argument(
        "--dry-run",
        nargs="?",
        const="dashboard.json",
        metavar="FILE",
        help="only write the workspace to this JSON file",
    )
    args = parser.parse_args()
    with exit_on_error():
        run(args.entity, args.project, args.name, args.dry_run, args.pairs)


def run(entity: str | None, project: str, name: str, file: str | None, pairs: Path | None = None) -> None:
    try:
        board = workspace(entity or "entity", project, name)
    except ImportError:
        raise UserError("the dashboard needs a package: pip install wandb-workspaces") from None
    if file:
        write_text(Path(file), json.dumps(as_json(board), indent=2) + "\n")
        console.print(f"{panels(board)} panels, in {file}", markup=False)
        if pairs:
            log(pairs, WandbSettings(project, entity, mode="offline"))
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
    if pairs:
        log(pairs, WandbSettings(project, entity, mode="online"))


def log(runs: Path, settings: WandbSettings) -> None:
    count = sum(1 for _ in log_pairs(runs, settings))
    console.print(f"{count} {'pair' if count == 1 else 'pairs'} of PANs on and off logged from {runs}", markup=False)


def workspace(entity: str, project: str, name: str) -> "Workspace":
    import wandb_workspaces.reports.v2 as panel
    import wandb_workspaces.workspaces as ws

    def curve(metric: str, title: str, x: str = "round") -> Any:
        return panel.LinePlot(
            title=title, x=x, y=[metric], groupby_aggfunc="mean", groupby_rangefunc="stddev", aggregate=True
        )

    def scatter(setting: str, label: str, metric: str = ACCURACY, title: str = "accuracy") -> Any:
        y = panel.SummaryMetric(metric)
        return panel.ScatterPlot(
            title=f"{title} against {label}", x=panel.Config(setting), y=y, log_x=setting in LOGARITHMIC
        )

    def probe(name: str, title: str) -> Any:
        return panel.LinePlot(title=title, x="round", metric_regex=f"^{name}/", groupby_aggfunc="mean", aggregate=True)

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
        ws.Section(
            "Pairs: PANs on minus off (--pairs)",
            panels=[
                curve("paired/test_acc", "test accuracy, on minus off (points)"),
                curve("paired/train_loss", "local loss, on minus off"),
                bars(GAIN, "accuracy of the last five rounds, on minus off (points)"),
                *(scatter(name, SWEPT[name], GAIN, "on minus off (points)") for name in ("fl_scene/alpha", "pan/A")),
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
        ws.Section("Alignment probes (probes=[...])", panels=[probe(*each) for each in PROBES.items()]),
        ws.Section(
            "Partition: samples by client and label",
            panels=[
                panel.MediaBrowser(media_keys=["partition"]),
                panel.WeavePanelSummaryTable(table_name="partition_table"),
            ],
        ),
        ws.Section("Pictures of runs", panels=[panel.MediaBrowser(media_keys=["curves"])]),
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
