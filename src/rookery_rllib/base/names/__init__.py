"""Which object stands behind a name of RLlib, Tune, gym and TensorFlow: a table for each area."""
