"""Environments whose state is in tensors on one device, and their rows for the rest of the library."""
