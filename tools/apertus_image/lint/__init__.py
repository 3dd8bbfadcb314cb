"""Checks of an image's file system, by reading its trees; nothing of it is run."""
