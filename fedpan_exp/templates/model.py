"""A network with one hidden layer.

python -m fedpan_exp plugins=[example.py] model=example
"""

from dataclasses import dataclass
from math import prod

from torch import nn

from fedpan_exp.alignment.permutation_spec import PermutationSpec
from fedpan_exp.models import ModelSettings, Network, Pan
from fedpan_exp.models.network import Shape
from fedpan_exp.system.errors import require


@dataclass
class ExampleSettings(ModelSettings):
    """One hidden layer."""

    name: str = "example"
    width: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.width >= 1, "model.width", "at least 1", self.width)

    def build(self, shape: Shape, classes: int, pan: Pan) -> Network:
        return Example(prod(shape), self.width, classes, pan)


class Example(Network):
    def __init__(self, inputs: int, width: int, classes: int, pan: Pan):
        super().__init__()
        self.permutation_spec = spec = PermutationSpec()  # which neurons may be permuted without changing the function
        hidden = spec.group("fc1", width)
        self.body = nn.Sequential()
        self.body.add_module("flatten", nn.Flatten())
        self.body.add_module("fc1", nn.Linear(inputs, width))
        self.body.add_module("pe1", pan.encode(hidden, width, "body.fc1"))  # the position encoding
        self.body.add_module("relu1", pan.activation(hidden, width))  # ReLU, unless the encoding is in it
        self.head = nn.Linear(width, classes)
        spec.dense("body.fc1", None, hidden)
        spec.dense("head", hidden, None)
        self.activation_modules = {hidden: "body.relu1"}


MODELS = {"example": ExampleSettings}
