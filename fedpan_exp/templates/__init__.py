"""What `python -m fedpan_exp new` writes: a plugin, its YAML and its test per kind, with `example` for its name."""
