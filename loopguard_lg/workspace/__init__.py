"""The files that agents work on: snapshots, changes, locks, recovery, hand-over."""
