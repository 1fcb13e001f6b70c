"""Judging a policy without an environment: what it would earn, and how far data can say so."""
