"""Other simulators on the same job, from their packages, in an environment of their own: `make bench-peers`."""

import fedpan_exp  # noqa: F401  whose guard lets fluke import torchvision beside a CPU build of torch
