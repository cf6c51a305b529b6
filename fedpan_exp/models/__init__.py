"""Models: one file per family, with a settings dataclass that is the config schema and builds the network."""

from fedpan_exp.models.activations import POSITIONS, activations, capture_activations, check_layers
from fedpan_exp.models.block_layers import count_weights, group_of, weight_groups
from fedpan_exp.models.client_encodings import use_client_encodings
from fedpan_exp.models.encodings import ENCODINGS
from fedpan_exp.models.heads import check_head, fix_head
from fedpan_exp.models.mlp import MLPSettings
from fedpan_exp.models.network import INITIALISATIONS, ModelSettings, Network, authors_init, check_network
from fedpan_exp.models.pan_parameters import check_pan, check_rates, compensate_rates, per_neuron, set_pan_parameters
from fedpan_exp.models.position import Pan, PositionEncoding, encodings, inactive_layers
from fedpan_exp.models.resnet import ResNetSettings
from fedpan_exp.models.spare import initialise
from fedpan_exp.models.vgg import VGGSettings

MODELS: dict[str, type[ModelSettings]] = {"mlp": MLPSettings, "vgg": VGGSettings, "resnet": ResNetSettings}

__all__ = [
    "ENCODINGS",
    "INITIALISATIONS",
    "MODELS",
    "POSITIONS",
    "ModelSettings",
    "Network",
    "Pan",
    "PositionEncoding",
    "activations",
    "authors_init",
    "capture_activations",
    "check_head",
    "check_layers",
    "check_network",
    "check_pan",
    "check_rates",
    "compensate_rates",
    "count_weights",
    "encodings",
    "fix_head",
    "group_of",
    "inactive_layers",
    "initialise",
    "per_neuron",
    "set_pan_parameters",
    "use_client_encodings",
    "weight_groups",
]
