"""Making locks: uv resolves wheels, apt resolves Debian packages."""
