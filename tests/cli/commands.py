"""What commands of the tests have in common."""

TINY = ["algorithm.fragment_length=8", "algorithm.epochs=1", "sampling.num_envs=2", "--preset", "none"]
