"""The questions we ask, one file each: a settings dataclass whose run() answers it."""

from typing import Any

from fedpan_exp.studies.centralize import Centralize
from fedpan_exp.studies.federate import Federate
from fedpan_exp.studies.partition import Partition

STUDIES: dict[str, Any] = {"centralize": Centralize, "federate": Federate, "partition": Partition}
