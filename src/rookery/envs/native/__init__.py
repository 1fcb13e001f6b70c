"""Environments written in C: their header, what compiles and loads them, and the `CEnv` that plays them."""
