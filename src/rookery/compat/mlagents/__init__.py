"""ML-Agents' files on Rookery's engine: its configuration, its results folder, its ONNX."""
