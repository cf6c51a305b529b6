"""The floor of `make bench`: a plain torch loop in one process."""

from benchmarks.floor import make_floor
from benchmarks.peers.job import Job
from benchmarks.peers.settings import experiment, load_common_weights


def main() -> None:
    job = Job()
    setting = experiment(job.name, job.rounds)
    scene, net = setting.fl_scene, setting.network()
    load_common_weights(net, job.name)
    floor, test = make_floor(setting, net)
    for round_idx in range(1, job.rounds + 1):
        cohort = scene.sample_cohort(scene.K, round_idx, setting.seed)
        floor.round(cohort, int(scene.E), scene.B, setting.training.lr, warmup=1)
        job.end_round(floor.test(test))
    job.report()


if __name__ == "__main__":
    main()
