"""Experiments on federated learning with position-aware neurons.

import fedpan_exp as fp

for round in fp.federate("algorithm=scaffold", "pan=mul", "pan.A=0.1"):
    print(round.index, round.test().accuracy)
"""

from typing import TYPE_CHECKING, Any

from fedpan_exp.system import torchvision_guard
from fedpan_exp.system.errors import UserError

if TYPE_CHECKING:
    from fedpan_exp.api import Result, experiment, federate, load_runs, run

__version__ = "0.3.0"
__all__ = ["Result", "UserError", "experiment", "federate", "load_runs", "run"]

torchvision_guard.install()


def __getattr__(name: str) -> Any:
    """Import the API when it is first used: torch takes seconds, which `--help` should not."""
    if name in __all__:
        from fedpan_exp import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """For tab completion, which does not see what is imported late."""
    return sorted({*globals(), *__all__})
