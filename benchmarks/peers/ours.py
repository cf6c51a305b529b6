"""fedpan_exp: the rounds of a run and their tests, over RANKS processes."""

import os

from benchmarks.peers.job import Job
from benchmarks.peers.settings import experiment, start_alike
from fedpan_exp.federation import count_ranks, federate
from fedpan_exp.studies.setup import set_up


def main() -> None:
    job = Job()
    setting = experiment(job.name, job.rounds, os.environ["RANKS"])
    world = set_up(setting)
    start_alike(world.trainer.net.net, job.name)
    ranks = count_ranks(setting.ranks, job.task.cohort_size, world.trainer.fabric.device)
    work = (setting.algorithm, world.trainer, world.clients, setting.fl_scene, setting.seed)
    for this in federate(*work, test=world.test, ranks=ranks):
        job.end_round(this.test().accuracy)
    job.report()


if __name__ == "__main__":
    main()
