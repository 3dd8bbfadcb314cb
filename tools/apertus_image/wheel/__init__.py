"""Wheels installed as one environment, by pypa/installer, in disjoint groups."""
