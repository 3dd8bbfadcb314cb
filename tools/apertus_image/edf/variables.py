"""Variables in an EDF's values: `${VAR}`, `${VAR:-}` and the literal `$${VAR}` (edf.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from apertus_image.edf.finding import DOCS, Severity

__all__ = ["expand", "faults", "names"]

# Longest first: a literal, then what starts like a variable, closed or not.
TOKEN = re.compile(r"\$\$\{(?P<literal>[^}]*)\}|\$\{(?P<inner>[^}]*)(?P<closed>\}?)"
                   r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)")
KNOWN = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-.*)?", re.DOTALL)


def names(value: str) -> list[str]:
    """The variables that a value expands."""
    return [known["name"] for token in TOKEN.finditer(value)
            if token["closed"] and (known := KNOWN.fullmatch(token["inner"] or ""))]


def expand(value: str, environment: Mapping[str, str]) -> str | None:
    """A value as the engine would see it with these variables; None where one is undefined."""
    missing = False

    def one(token: re.Match) -> str:
        nonlocal missing
        if token["literal"] is not None:
            return f"${{{token['literal']}}}"
        known = KNOWN.fullmatch(token["inner"] or "") if token["closed"] else None
        if known is None:
            return token[0]
        default = known["default"]
        # As in a shell, ":-" stands for a variable that is empty as well.
        found = environment.get(known["name"])
        if default is not None:
            return found or default.removeprefix(":-")
        if found is None:
            missing = True
        return found or ""

    result = TOKEN.sub(one, value)
    return None if missing else result


def faults(value: str, environment: Mapping[str, str]
           ) -> Iterator[tuple[Severity, str, str, str]]:
    """What is wrong with the variables of a value: (severity, what, why, next step)."""
    forms = f"${{VAR}}, ${{VAR:-}} and the literal $${{VAR}} are known ({DOCS}/edf.md)"
    expanded = set(names(value))
    for token in TOKEN.finditer(value):
        text = token[0]
        if token["bare"]:
            yield ("warning", f"{text} is not expanded", forms,
                   f"write ${{{token['bare']}}}, or $${{{token['bare']}}} to keep it literal")
        elif token["literal"] is not None:
            if token["literal"] in expanded:
                yield ("warning", f"{text} stays literal beside ${{{token['literal']}}}, which is "
                       "expanded", forms, "use one form of a variable in a value")
        elif not token["closed"]:
            yield "error", f"{text} is not closed", forms, "close it with }"
        else:
            known = KNOWN.fullmatch(token["inner"])
            if known is None:
                yield "error", f"{text} is no known form", forms, "use a form that is known"
            elif known["default"] not in (None, ":-"):
                yield ("warning", f"{text} has a default that is not empty",
                       f"only the empty default is documented: {forms}",
                       "set the variable before srun, or write the value itself")
            elif known["default"] is None and known["name"] not in environment:
                yield ("warning", f"{text} is not defined here",
                       f"an undefined variable stops the start; ${{VAR:-}} gives an empty value "
                       f"({DOCS}/edf.md)", f"define {known['name']} where srun is called")
