"""The detectors."""
