"""fedpan_exp: the rounds of a run and their tests, over RANKS processes."""

import os

from benchmarks.peers.job import Job
from benchmarks.peers.settings import experiment, start_alike
from fedpan_exp.federation import count_ranks, federate, make_executor
from fedpan_exp.studies.shared.setup import make_task, set_up


def main() -> None:
    job = Job()
    setting = experiment(job.name, job.rounds, os.environ["RANKS"])
    setup = set_up(setting)
    start_alike(setup.trainer.net.net, job.name)
    task = make_task(setting, setup)
    ranks = count_ranks(setting.ranks, task.cohort_size, setup.trainer.fabric.device)
    for this in federate(task, make_executor(task, ranks)):
        job.end_round(this.test().accuracy)
    job.report()


if __name__ == "__main__":
    main()
