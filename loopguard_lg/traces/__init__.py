"""Recordings of runs: what they are, reading them, writing them."""
