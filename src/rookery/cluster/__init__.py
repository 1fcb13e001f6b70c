"""Several processes or machines in one run: how learners agree."""
