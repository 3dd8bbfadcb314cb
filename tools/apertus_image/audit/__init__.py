"""What changed and what it means; whether it can be made again; whom it can serve."""
