"""Permutation symmetry of neurons: shuffling, matching, fusing and comparing networks by their permutation spec."""
