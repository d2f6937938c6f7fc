"""What recordings tell: replay, and how right the verdicts are."""
