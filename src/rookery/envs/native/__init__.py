"""Environments written in C: the header, compiler and loader, and `CEnv`, which plays them."""
