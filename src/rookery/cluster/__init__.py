"""The connection to Ray, processes on its nodes, and synchronous learners."""
