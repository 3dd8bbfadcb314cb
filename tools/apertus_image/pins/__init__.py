"""Pins: the requested requirements, the locks made from them, and their checks."""
