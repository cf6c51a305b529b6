"""Make torchvision importable with a CPU build of torch.

torchvision's wheel is linked against CUDA torch. With a CPU torch its compiled operators do not load, and
`import torchvision` (and with it `import lightning`) fails because two operators it refers to are unknown. Declaring
them is enough, because this package never calls them. If the two builds match, nothing is declared.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

MISSING_OPERATORS = ("nms", "qnms")
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class _BeforeTorchvision(MetaPathFinder):
    """Declares the operators when torchvision is first looked up, then leaves the import to the other finders."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec("torchvision")
            if spec and spec.origin:
                _declare_missing_operators(Path(spec.origin).parent)
        return None


def install() -> None:
    if "torchvision" not in sys.modules:
        sys.meta_path.insert(0, _BeforeTorchvision())


def _declare_missing_operators(folder: Path) -> None:
    import torch  # imported late so that `import fedpan_exp` (and --help) stays fast

    try:
        torch.ops.load_library(str(next(folder.glob("_C.*"))))
    except (OSError, StopIteration):
        for operator in MISSING_OPERATORS:
            torch.library.define(f"torchvision::{operator}", SIGNATURE)
