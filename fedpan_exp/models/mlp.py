"""The paper's multi-layer perceptron: 784-1024-1024-1024-classes."""

from dataclasses import dataclass
from math import prod

from torch import nn

from fedpan_exp.alignment.permutation_spec import PermutationSpec
from fedpan_exp.models.block_layers import UNCUT, Groups
from fedpan_exp.models.network import GroupedSettings, Network, Shape
from fedpan_exp.models.position import Pan
from fedpan_exp.models.spare import check_spare
from fedpan_exp.system.errors import require


@dataclass
class MLPSettings(GroupedSettings):
    width: int = 1024
    depth: int = 3  # hidden layers; 0 gives a linear classifier
    spare: int = 0  # further neurons per hidden layer, with zero weights

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.width >= 1, "model.width", "at least 1", self.width)
        require(self.depth >= 0, "model.depth", "at least 0", self.depth)
        self.cut.check([self.width] * self.depth, "model.width")

    def build(self, shape: Shape, classes: int, pan: Pan) -> Network:
        self.cut.check_classes(classes)
        check_spare(self.spare, pan, groups=self.groups)
        return MLP(prod(shape), self.width, self.depth, classes, pan, self.cut, self.spare)


class MLP(Network):
    """`depth` times fc - position encoding (PE) - ReLU, then the head."""

    def __init__(
        self, inputs: int, width: int, depth: int, classes: int, pan: Pan, cut: Groups = UNCUT, spare: int = 0
    ):
        super().__init__()
        self.class_groups = cut.number
        self.body, self.activation_modules = nn.Sequential(), {}
        self.permutation_spec = spec = PermutationSpec()
        self.body.add_module("flatten", nn.Flatten())
        previous, fan_in, width = None, inputs, width + spare
        for i in range(1, depth + 1):
            group = spec.group(f"fc{i}", width, cut.sections(i), spare)
            self.body.add_module(f"fc{i}", cut.linear(i, fan_in, width))
            self.body.add_module(f"pe{i}", pan.encode(group, width, f"body.fc{i}"))
            self.body.add_module(f"relu{i}", pan.activation(group, width))
            spec.dense(f"body.fc{i}", previous, group)
            self.activation_modules[group] = f"body.relu{i}"
            previous, fan_in = group, width
        self.head = cut.linear(depth + 1, fan_in, classes)
        spec.dense("head", previous, None)
