"""Is a PAN network a plain network in other coordinates? Train it and its plain twin side by side and compare."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedpan_exp.config import Experiment
from fedpan_exp.federation import FederatedTask, Round, torchrun
from fedpan_exp.studies.shared.setup import FederatedSetup, make_task, make_trainer, set_up
from fedpan_exp.studies.study import Study
from fedpan_exp.studies.twin.plain_twin import TwinMap, broken_conditions, twin_map, twin_rates
from fedpan_exp.studies.twin.rounding import growth_of_rounding
from fedpan_exp.studies.twin.side import make_side, restore_both
from fedpan_exp.studies.twin.verdict import Verdict
from fedpan_exp.system.console import print_status, progress_bar
from fedpan_exp.system.errors import require
from fedpan_exp.system.signals import Interrupted, StopRequest
from fedpan_exp.tracking.record import Record
from fedpan_exp.training import FlatParameters

# Largest difference that counts as rounding: 64 bits, and 32 bits, where rounding errors grow in training.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}


@dataclass
class Twin(Study):
    """Federated training of two networks with the same clients, batches and rounds, in one process."""

    name: str = "twin"

    def check(self, experiment: Experiment) -> None:
        super().check(experiment)
        pan, precision = experiment.pan, experiment.fabric.precision
        has_twin = not experiment.pans_off and not pan.is_plain
        require(has_twin, "pan", "a PAN for study=twin, which compares it with its plain network", pan.mode)
        require(precision in ("64-true", "32-true"), "fabric.precision", "64-true or 32-true for study=twin", precision)
        require(not torchrun.is_launched(), "study=twin", "run in one process", "torchrun")

    def total_rounds(self, experiment: Experiment) -> int:
        return experiment.fl_scene.H

    def run(self, experiment: Experiment, record: Record, stop: StopRequest) -> None:
        setup = set_up(experiment)
        task = make_task(experiment, setup)
        twin, mapped = make_twin(experiment, setup)
        tolerance, start = TOLERANCES[setup.trainer.net.weights.dtype], setup.trainer.net.weights.clone()
        twins_start = FlatParameters(twin.trainer.net.weights, twin.trainer.net.buffers).cpu_copy()
        record.lock()
        pan, plain = (make_side(*side, experiment, record) for side in (("pan", task), ("twin", twin)))
        restore_both(pan, plain, record.metrics_bytes)
        done = pan.resume.round_idx if pan.resume else 0
        twins_end = plain.resume.server.weights if plain.resume else twins_start.weights
        records = record.start(keep_bytes=pan.resume.records if pan.resume else 0)
        print_status("twin", f"the same network without encodings; equal up to {tolerance:g} counts as absorbed")
        if done:
            print_status("resume", f"after round {done}, from its checkpoint")
        try:
            with progress_bar("twin", experiment.fl_scene.H, done=done) as progress:
                for ours, theirs in zip(pan.rounds(stop), plain.rounds(stop), strict=True):
                    metrics, twins_end = compare(ours, theirs, mapped, start), theirs.server.weights
                    if experiment.evaluates(ours.index):
                        metrics |= test(ours, theirs)
                    record.write(ours.index, metrics)
                    record.heartbeat()
                    records.append(metrics)
                    if pan.checkpoints.is_due(ours.index):
                        plain.save(theirs, record.metrics_bytes)
                        pan.save(ours, record.metrics_bytes)
                    progress.advance(1)
                    progress.describe(f"round {ours.index}  {describe_round(metrics)}")
            difference = max(metrics["twin/difference"] for metrics in records)
            broken, rounding = broken_conditions(experiment), None
            if difference >= tolerance and not broken:
                rounding = growth_of_rounding(twin, twins_start, twins_end, stop)
        except Interrupted as error:
            error.saved_round = pan.checkpoints.last_saved
            raise
        verdict = Verdict(difference, tolerance, rounding)
        record.write_summary(
            {
                "summary/final_acc": records[-1]["pan/test_acc"],
                "summary/twin_acc": records[-1]["twin/test_acc"],
                **verdict.summary(),
            }
        )
        print_status("result", verdict.describe(broken))


def compare(ours: Round, theirs: Round, mapped: TwinMap, start: Tensor) -> dict[str, float]:
    """How far the mapped weights are from the twin's, and for scale, how far training has moved them."""
    return {
        "twin/difference": (mapped(ours.server.weights) - theirs.server.weights).abs().max().item(),
        "twin/moved": (ours.server.weights - start).abs().max().item(),
        "time/round_s": ours.seconds + theirs.seconds,
    }


def test(ours: Round, theirs: Round) -> dict[str, float]:
    results = {"pan": ours.test(), "twin": theirs.test()}
    accuracies = {f"{name}/test_acc": result.accuracy for name, result in results.items()}
    return accuracies | {f"{name}/test_loss": result.loss for name, result in results.items()}


def describe_round(metrics: dict[str, float]) -> str:
    accuracy = f"accuracy {metrics['pan/test_acc']:.2%}  " if "pan/test_acc" in metrics else ""
    return f"{accuracy}difference {metrics['twin/difference']:.1e}"


def make_twin(experiment: Experiment, setup: FederatedSetup) -> tuple[FederatedTask, TwinMap]:
    """The task of the plain twin, which starts from the mapped weights of the network in `setup`."""
    pan_net = setup.trainer.net
    plain = replace(
        experiment,
        pan=replace(experiment.pan, mode="off", A=0.0, n_fix=0),
        training=replace(experiment.training, neuron_rates="plain"),
    )
    net = plain.network()
    net.rates = twin_rates(pan_net.net)
    trainer, mapped = make_trainer(plain, net), twin_map(pan_net)
    trainer.net.load(mapped(pan_net.weights), pan_net.buffers)
    return make_task(plain, replace(setup, trainer=trainer)), mapped
