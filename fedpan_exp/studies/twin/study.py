"""Is a PAN network a plain network in other coordinates? Train it and its plain twin side by side and compare."""

from dataclasses import dataclass, replace

import torch

from fedpan_exp.config import Experiment
from fedpan_exp.federation import FederatedTask, SerialExecutor, federate, torchrun
from fedpan_exp.studies.shared.setup import FederatedSetup, make_task, make_trainer, set_up
from fedpan_exp.studies.study import Study
from fedpan_exp.studies.twin.plain_twin import TwinMap, broken_conditions, twin_map, twin_rates
from fedpan_exp.system.console import print_status, progress_bar
from fedpan_exp.system.errors import require
from fedpan_exp.system.signals import StopRequest
from fedpan_exp.tracking.record import Record

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
        tolerance = TOLERANCES[setup.trainer.net.weights.dtype]
        record.start()
        print_status("twin", f"the same network without encodings; equal up to {tolerance:g} counts as absorbed")
        differences, start, accuracy = [], setup.trainer.net.weights.clone(), ""
        pan_rounds, twin_rounds = (federate(each, SerialExecutor(each, stop=stop)) for each in (task, twin))
        with progress_bar("twin", experiment.fl_scene.H) as progress:
            for ours, theirs in zip(pan_rounds, twin_rounds, strict=True):
                difference = (mapped(ours.server.weights) - theirs.server.weights).abs().max().item()
                differences.append(difference)
                metrics = {
                    "twin/difference": difference,
                    "twin/moved": (ours.server.weights - start).abs().max().item(),
                    "time/round_s": ours.seconds + theirs.seconds,
                }
                if experiment.evaluates(ours.index):
                    pan, plain = ours.test(), theirs.test()
                    accuracy = f"accuracy {pan.accuracy:.2%}  "
                    metrics |= {"pan/test_acc": pan.accuracy, "pan/test_loss": pan.loss}
                    metrics |= {"twin/test_acc": plain.accuracy, "twin/test_loss": plain.loss}
                record.write(ours.index, metrics)
                record.heartbeat()
                progress.advance(1)
                progress.describe(f"round {ours.index}  {accuracy}difference {difference:.1e}")
        is_absorbed = max(differences) < tolerance
        summary = {
            "summary/final_acc": pan.accuracy,
            "summary/twin_acc": plain.accuracy,
            "summary/difference": max(differences),
            "summary/absorbed": int(is_absorbed),
        }
        record.write_summary(summary)
        print_status("result", describe(experiment, max(differences), is_absorbed))


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


def describe(experiment: Experiment, difference: float, is_absorbed: bool) -> str:
    text = f"{'absorbed' if is_absorbed else 'not absorbed'}: largest difference of a weight {difference:.1e}"
    if is_absorbed:
        return text
    return f"{text}; {'; '.join(broken_conditions(experiment)) or f'algorithm={experiment.algorithm.name}'}"
