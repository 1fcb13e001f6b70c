"""A package that adds one part of each kind to Rookery; see docs/how-to/plug-in.md."""
