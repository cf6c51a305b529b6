"""VGG (Simonyan & Zisserman, ICLR 2015) as in the paper: 3x3 convolutions, few or no hidden FC layers."""

from dataclasses import dataclass, field
from math import lcm

from torch import nn

from fedpan_exp.alignment.permutation_spec import PermutationSpec
from fedpan_exp.models.block_layers import UNCUT, Groups
from fedpan_exp.models.network import (
    GroupedSettings,
    Network,
    Shape,
    check_norm,
    check_width_factor,
    norm_groups,
    norm_layer,
    norm_position,
    scaled_width,
)
from fedpan_exp.models.position import Pan
from fedpan_exp.models.spare import check_spare
from fedpan_exp.system.errors import ConfigError, require


@dataclass
class VGGSettings(GroupedSettings):
    convs: str = ""  # widths of conv layers, M for max-pooling: "64 M 128 M"
    hidden: list[int] = field(default_factory=list)  # widths of hidden fully connected layers
    norm: str = "none"
    width_factor: float = 1.0  # multiplies all widths
    spare: int = 0  # further neurons per hidden layer, with zero weights

    def __post_init__(self) -> None:
        super().__post_init__()
        tokens = self.convs.split()
        is_valid = all(token == "M" or (token.isdigit() and int(token) > 0) for token in tokens)
        is_valid = is_valid and tokens[:1] != ["M"] and bool(tokens)
        require(is_valid, "model.convs", "widths and M, as in '64 M 128'", self.convs)
        require(all(width >= 1 for width in self.hidden), "model.hidden", "widths of at least 1", self.hidden)
        check_norm(self.norm)
        check_width_factor(self.width_factor)
        widths = [*(int(token) for token in tokens if token != "M"), *self.hidden]
        self.cut.check(widths, "model.convs and model.hidden")
        normalizes_within = not self.norm.startswith("gn") or norm_groups(self.norm) % self.groups == 0
        rule = f"none, bn or gn<groups> with a multiple of model.groups={self.groups}"
        require(normalizes_within, "model.norm", rule, self.norm)

    def build(self, shape: Shape, classes: int, pan: Pan) -> Network:
        self.cut.check_classes(classes)
        check_spare(self.spare, pan, self.norm, self.groups)
        _, height, width = shape
        halvings = self.convs.split().count("M")
        if min(height, width) >> halvings == 0:
            raise ConfigError(
                f"model={self.name} halves the image {halvings} times and needs at least {1 << halvings} pixels per "
                f"side, got {height}x{width}; choose model=mlp, vgg9 or resnet20, or a dataset of larger images"
            )
        convs, layer = self.convs.split(), 0
        for i, token in enumerate(convs):
            if token != "M":
                layer += 1
                convs[i] = str(self._scaled(int(token), layer, norm_groups(self.norm)))
        hidden = [self._scaled(width, layer) for layer, width in enumerate(self.hidden, start=layer + 1)]
        return VGG(shape, convs, hidden, classes, self.norm, pan, self.cut, self.spare)

    def _scaled(self, width: int, layer: int, norm_groups: int = 1) -> int:
        return scaled_width(width, self.width_factor, lcm(norm_groups, self.cut.sections(layer)))


class VGG(Network):
    """conv - norm - PE - ReLU with max-pooling in between, then fc - PE - ReLU, then the head."""

    def __init__(
        self,
        shape: Shape,
        convs: list[str],
        hidden: list[int],
        classes: int,
        norm: str,
        pan: Pan,
        cut: Groups = UNCUT,
        spare: int = 0,
    ):
        super().__init__()
        self.class_groups = cut.number
        self.body, self.activation_modules = nn.Sequential(), {}
        self.permutation_spec = spec = PermutationSpec()
        channels, height, width = shape
        encodings_first = pan.placement == "authors"  # the released code has them before the norm layer
        relative_to_norm = norm_position(norm, "before" if encodings_first else "after")
        previous: str | None = None
        i = pools = 0
        for token in convs:
            if token == "M":
                pools += 1
                self.body.add_module(f"pool{pools}", nn.MaxPool2d(2))
                height, width = height // 2, width // 2
                continue
            i += 1
            outputs = int(token) + spare
            group = spec.group(f"conv{i}", outputs, cut.sections(i), spare)
            self.body.add_module(f"conv{i}", cut.conv(i, channels, outputs))
            spec.conv(f"body.conv{i}", previous, group)
            previous, channels = group, outputs

            norm_module = norm_layer(norm, channels)
            spec.norm(f"body.norm{i}", group, norm_module)
            conv = f"body.conv{i}"
            affine = conv if norm == "none" or encodings_first else f"body.norm{i}"
            encoding = pan.encode(group, channels, conv, relative_to_norm, affine)
            tail = [(f"norm{i}", norm_module), (f"pe{i}", encoding)]
            for name, module in reversed(tail) if encodings_first else tail:
                self.body.add_module(name, module)
            self.body.add_module(f"relu{i}", pan.activation(group, channels))
            self.activation_modules[group] = f"body.relu{i}"

        self.body.add_module("flatten", nn.Flatten())
        fan_in, block = channels * height * width, height * width
        for j, neurons in enumerate((width + spare for width in hidden), start=1):
            group = spec.group(f"fc{j}", neurons, cut.sections(i + j), spare)
            self.body.add_module(f"fc{j}", cut.linear(i + j, fan_in, neurons))
            spec.dense(f"body.fc{j}", previous, group, block)
            if pan.placement == "paper":
                self.body.add_module(f"pe_fc{j}", pan.encode(group, neurons, f"body.fc{j}"))
            self.body.add_module(f"relu_fc{j}", pan.activation(group, neurons))
            self.activation_modules[group] = f"body.relu_fc{j}"
            previous, fan_in, block = group, neurons, 1
        self.head = cut.linear(i + len(hidden) + 1, fan_in, classes)
        spec.dense("head", previous, None, block)
