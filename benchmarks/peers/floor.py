"""The floor of `make bench`: a plain torch loop in one process."""

from benchmarks.floor import Floor
from benchmarks.peers.job import Job
from benchmarks.peers.settings import experiment, start_alike
from fedpan_exp.studies.setup import make_world


def main() -> None:
    job = Job()
    setting = experiment(job.width, job.rounds)
    world, scene = make_world(setting), setting.fl_scene
    images, clients = world.clients.images, world.clients
    net = setting.network()
    start_alike(net, job.width)
    floor = Floor(net, images.x, images.y, clients.pixels, clients.train)
    for turn in range(1, job.rounds + 1):
        chosen = scene.chosen(len(clients), turn, setting.seed)
        floor.round(chosen, scene.E, scene.B, setting.training.lr, warmup=1)
        job.end_round(floor.test(world.test))
    job.report()


if __name__ == "__main__":
    main()
