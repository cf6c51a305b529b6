"""The floor of `make bench`: a plain torch loop in one process."""

from benchmarks.floor import floor_of
from benchmarks.peers.job import Job
from benchmarks.peers.settings import experiment, start_alike


def main() -> None:
    job = Job()
    setting = experiment(job.name, job.rounds)
    scene, net = setting.fl_scene, setting.network()
    start_alike(net, job.name)
    floor, test = floor_of(setting, net)
    for round_idx in range(1, job.rounds + 1):
        chosen = scene.sample_cohort(scene.K, round_idx, setting.seed)
        floor.round(chosen, scene.E, scene.B, setting.training.lr, warmup=1)
        job.end_round(floor.test(test))
    job.report()


if __name__ == "__main__":
    main()
