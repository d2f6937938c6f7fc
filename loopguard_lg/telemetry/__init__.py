"""What a run cost and how it went, for the outside."""
