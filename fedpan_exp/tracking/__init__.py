"""Run folders, their locks, and loggers such as W&B."""
