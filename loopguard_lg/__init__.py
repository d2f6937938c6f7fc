"""Loop guard."""
