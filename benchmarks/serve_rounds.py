"""Run one round for every line of standard input, and print its seconds.

    python benchmarks/serve_rounds.py RANKS test|no-test OVERRIDES...

benchmarks.turns starts it, also in another checkout: it imports the fedpan_exp of the one in PYTHONPATH.
"""

import os
import sys
import time

import torch

from fedpan_exp import config
from fedpan_exp.federation import federate, make_executor
from fedpan_exp.studies import load_studies
from fedpan_exp.studies.shared.setup import make_task, set_up
from fedpan_exp.system.console import quietly

MANY_ROUNDS = "fl_scene.H=1008"  # full passes of FedMA for 4 layers and for 9

ranks, with_test = int(sys.argv[1]), sys.argv[2] == "test"
config.register(load_studies())
experiment = config.experiment(*sys.argv[3:], MANY_ROUNDS, "fabric.accelerator=cpu")
with quietly():
    task = make_task(experiment, set_up(experiment))
torch.set_num_threads(1 if ranks > 1 else os.cpu_count() or 1)
rounds = federate(task, make_executor(task, ranks))
print("ready", flush=True)
for _ in sys.stdin:
    started = time.perf_counter()
    round_ = next(rounds)
    if with_test:
        round_.test()
    print(time.perf_counter() - started, flush=True)
rounds.close()
