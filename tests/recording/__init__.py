"""Scenarios with real models: recorded once by one command, replayed as tests."""
