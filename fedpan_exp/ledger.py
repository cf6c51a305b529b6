"""The old name of `python -m fedpan_exp.runs`; kept for one release."""

from fedpan_exp.runs import main
from fedpan_exp.system.console import warn

if __name__ == "__main__":
    warn("fedpan_exp.ledger is now called fedpan_exp.runs; the old name goes away with the next release")
    main()
