"""Sweeps: many experiments with one command, as a Hydra sweeper. Grids, jobs, plan, progress, summary."""
