"""RLlib and Ray Tune as of 2021: their names in, typed configuration and ordinary Rookery objects out."""
