"""OCI registries: pushing, pulling and attaching (distribution-spec 1.1)."""
