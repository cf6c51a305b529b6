"""The questions we ask, one file each: a settings dataclass whose run() answers it."""

from typing import Any

from fedpan_exp.studies.centralize import Centralize
from fedpan_exp.studies.federate import Federate
from fedpan_exp.studies.fusion import Fusion
from fedpan_exp.studies.partition import Partition
from fedpan_exp.studies.shuffle_test import ShuffleTest

STUDIES: dict[str, Any] = {
    "centralize": Centralize,
    "federate": Federate,
    "fusion": Fusion,
    "partition": Partition,
    "shuffle_test": ShuffleTest,
}
