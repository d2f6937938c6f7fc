"""What the guard does for an agent beside stopping it; each act is pure."""
