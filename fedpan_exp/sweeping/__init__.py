"""Sweeps: many experiments with one command. Grids, jobs, plan, progress, summary."""
