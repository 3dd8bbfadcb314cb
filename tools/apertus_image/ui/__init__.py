"""What the user sees: errors, progress, sizes."""
