"""The old name of `python -m fedpan_exp.misalignment`; kept for one release."""

from fedpan_exp.misalignment import main
from fedpan_exp.system.console import warn

if __name__ == "__main__":
    warn("fedpan_exp.thermometer is now called fedpan_exp.misalignment; the old name goes away with the next release")
    main()
