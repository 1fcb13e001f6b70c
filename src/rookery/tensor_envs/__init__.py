"""Environments whose copies live in tensors on one device, and what shows them to everything else."""
