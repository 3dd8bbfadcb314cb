"""Python bytecode with the same bytes every time."""
