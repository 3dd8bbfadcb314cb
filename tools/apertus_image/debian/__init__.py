"""Debian packages unpacked into a root file system, without running any of them."""
