"""Patches as data with proofs: a diff, hashes before and after, and where it comes from."""
