"""Trees on disk, and the manifests that describe them."""
