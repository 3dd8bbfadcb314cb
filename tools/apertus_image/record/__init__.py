"""What a release is, written down, and the check that it still is that."""
