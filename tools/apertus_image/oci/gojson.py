"""JSON as Go's encoding/json writes it: its escapes, its indentation."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["compact", "indented"]

ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028",
           "\u2029": "\\u2029"}
TABLE = str.maketrans(ESCAPED)


def compact(value: Any) -> str:
    """json.Marshal. Objects keep the order they are given in."""
    # Outside strings JSON has none of these characters, so the whole text may be mapped.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(TABLE)


def indented(value: Any) -> str:
    """json.MarshalIndent with tabs, no newline at the end."""
    text = json.dumps(value, ensure_ascii=False, indent="\t", separators=(",", ": "))
    return text.translate(TABLE)
