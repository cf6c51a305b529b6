"""One file per dataset: where its files are found, how they are read, where they can be downloaded from."""
