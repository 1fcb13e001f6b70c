"""Off-policy evaluation: estimates the return of a policy from recorded data, without an environment."""
