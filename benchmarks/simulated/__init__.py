"""Agents with one bad habit each, in a small world: both are pure functions."""
