"""Bringing pinned inputs to the machine; the hash decides, a URL only helps."""
