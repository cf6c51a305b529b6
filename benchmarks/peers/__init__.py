"""The same job in other simulators, installed in a separate environment: `make bench-peers`."""

import fedpan_exp  # noqa: F401  its guard lets fluke import torchvision with a CPU build of torch
