"""Where conf/ and sweeps/ lie: in the package in a wheel, beside it in a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
_HOME = PACKAGE if (PACKAGE / "conf").is_dir() else PACKAGE.parent

CONF = _HOME / "conf"
SWEEPS = _HOME / "sweeps"
