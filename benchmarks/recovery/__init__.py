"""Does the guard get agents out of loops: simulated ones, and real models."""
