"""Aliases of the packages `rookery_rllib` and `rookery_mlagents` under the names they had before version 0.2."""
