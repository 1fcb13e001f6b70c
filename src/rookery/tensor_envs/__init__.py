"""Environments whose state is in tensors on one device, and their adapter to rows of arrays."""
