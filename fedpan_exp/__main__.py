"""python -m fedpan_exp algorithm=fedavg pan=mul pan.A=0.1"""

from fedpan_exp.cli import main

main()
