"""One module per dataset: where its files are, how they are read, where they can be downloaded."""
