"""fedpan_exp: rounds with evaluation over RANKS processes."""

import os

from benchmarks.peers.job import Job
from benchmarks.peers.settings import experiment, load_common_weights
from fedpan_exp.federation import count_ranks, federate, make_executor
from fedpan_exp.studies.shared.setup import make_task, set_up


def main() -> None:
    job = Job()
    setting = experiment(job.name, job.rounds, os.environ["RANKS"])
    setup = set_up(setting)
    load_common_weights(setup.trainer.net.net, job.name)
    task = make_task(setting, setup)
    ranks = count_ranks(setting.ranks, task.cohort_size, setup.trainer.fabric.device)
    for round_ in federate(task, make_executor(task, ranks)):
        job.end_round(round_.test().accuracy)
    job.report()


if __name__ == "__main__":
    main()
