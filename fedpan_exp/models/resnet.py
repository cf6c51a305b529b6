"""ResNet for small images (He et al., CVPR 2016): ResNet20 with the paper's widths 64, 128, 256."""

from dataclasses import dataclass

from torch import Tensor, nn

from fedpan_exp.alignment.permutation_spec import PermutationSpec
from fedpan_exp.models.network import (
    ModelSettings,
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
from fedpan_exp.system.errors import require


@dataclass
class ResNetSettings(ModelSettings):
    width: int = 64  # channels of the stem and stage 1; doubled in each further stage
    blocks: int = 3  # per stage; depth = 6 * blocks + 2
    norm: str = "bn"
    width_factor: float = 1.0  # multiplies all widths

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.width >= 1, "model.width", "at least 1", self.width)
        require(self.blocks >= 1, "model.blocks", "at least 1", self.blocks)
        check_norm(self.norm)
        check_width_factor(self.width_factor)

    def build(self, shape: Shape, classes: int, pan: Pan) -> Network:
        width = scaled_width(self.width, self.width_factor, norm_groups(self.norm))
        return ResNet(shape[0], width, self.blocks, classes, self.norm, pan)


class ResNet(Network):
    """Stem, three stages of basic blocks, average pooling, head.

    The residual stream of a stage is one group of neurons: all its blocks add to the same channels.
    """

    is_sequential = False

    def __init__(self, channels: int, width: int, blocks: int, classes: int, norm: str, pan: Pan):
        super().__init__()
        self.body, self.activation_modules = nn.Sequential(), {}
        self.permutation_spec = spec = PermutationSpec()
        stream = spec.group("stage1", width)
        stem = ConvNorm(channels, width, kernel=3, stride=1, norm=norm)
        stem.describe_neurons(spec, "body.stem", None, stream)
        self.body.add_module("stem", stem)
        if pan.placement == "paper":
            self.body.add_module("pe", encode_unit(pan, "stem", width, norm))
        self.body.add_module("relu", pan.activation("stem", width))
        for stage in (1, 2, 3):
            for index in range(1, blocks + 1):
                name = f"block{stage}_{index}"
                inner = spec.group(name, width * 2 ** (stage - 1))
                after = spec.group(f"stage{stage}", width * 2 ** (stage - 1))
                block = BasicBlock(name, spec.sizes[stream], spec.sizes[after], norm, pan)
                block.describe_neurons(spec, f"body.{name}", stream, inner, after)
                self.body.add_module(name, block)
                # `after` is overwritten by each block of the stage, so that it names the last one.
                self.activation_modules |= {inner: f"body.{name}.relu", after: f"body.{name}"}
                stream = after
        self.body.add_module("pool", nn.AdaptiveAvgPool2d(1))
        self.body.add_module("flatten", nn.Flatten())
        self.head = nn.Linear(spec.sizes[stream], classes)
        spec.dense("head", stream, None)


class BasicBlock(nn.Module):
    """relu(conv-norm-PE-relu-conv-norm-PE + shortcut), where the shortcut is the identity or conv-norm-PE."""

    def __init__(self, name: str, fan_in: int, fan_out: int, norm: str, pan: Pan):
        super().__init__()
        stride = 1 if fan_in == fan_out else 2
        self.unit1 = ConvNorm(fan_in, fan_out, 3, stride, norm)
        self.pe1 = encode_unit(pan, f"{name}.unit1", fan_out, norm)
        self.relu = pan.activation(f"{name}.unit1", fan_out)
        self.unit2 = ConvNorm(fan_out, fan_out, 3, 1, norm)
        self.pe2 = encode_unit(pan, f"{name}.unit2", fan_out, norm)
        self.relu2 = pan.activation(f"{name}.unit2", fan_out)
        self.projects = stride != 1
        if self.projects:
            self.projection = ConvNorm(fan_in, fan_out, 1, stride, norm)
            self.pe_projection = encode_unit(pan, f"{name}.projection", fan_out, norm)

    def forward(self, x: Tensor) -> Tensor:
        h = self.relu(self.pe1(self.unit1(x)))
        shortcut = self.pe_projection(self.projection(x)) if self.projects else x
        return self.relu2(self.pe2(self.unit2(h)) + shortcut)

    def describe_neurons(self, spec: PermutationSpec, name: str, before: str, inner: str, after: str) -> None:
        self.unit1.describe_neurons(spec, f"{name}.unit1", before, inner)
        self.unit2.describe_neurons(spec, f"{name}.unit2", inner, after)
        if self.projects:
            self.projection.describe_neurons(spec, f"{name}.projection", before, after)


def encode_unit(pan: Pan, layer: str, neurons: int, norm: str) -> nn.Module:
    """The encoding after the ConvNorm body.<layer>."""
    conv, affine = f"body.{layer}.conv", f"body.{layer}.{'conv' if norm == 'none' else 'norm'}"
    return pan.encode(layer, neurons, conv, norm_position(norm), affine)


class ConvNorm(nn.Module):
    def __init__(self, fan_in: int, fan_out: int, kernel: int, stride: int, norm: str):
        super().__init__()
        bias = norm == "none"  # norm layers have a bias
        # The pixels that a kernel of one pixel skips are dropped before it. Left to oneDNN, the gradient of such a
        # kernel is written outside of its memory if there are few channels (oneDNN's issue 6035).
        self.dropping = stride if kernel == 1 else 1
        self.conv = nn.Conv2d(fan_in, fan_out, kernel, stride // self.dropping, padding=kernel // 2, bias=bias)
        self.norm = norm_layer(norm, fan_out)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x[..., :: self.dropping, :: self.dropping]))

    def describe_neurons(self, spec: PermutationSpec, name: str, before: str | None, after: str) -> None:
        spec.conv(f"{name}.conv", before, after, bias=self.conv.bias is not None)
        spec.norm(f"{name}.norm", after, self.norm)
