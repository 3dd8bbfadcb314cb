"""An audit for people: on a terminal, and in a pull request."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from apertus_image.audit.report import (
    ADDED,
    GROUPS,
    MAY,
    REMOVED,
    SAME,
    WILL,
    Change,
    LayerChange,
    Report,
)

__all__ = ["amount", "headline", "markdown", "moved", "sizes", "text"]

LONGEST = 20  # changes of a group that are shown
MARKS = {"added": "+", "removed": "-", "moved": "~", "changed": "~", "hash changed": "!"}
LAYER_MARKS = {SAME: "=", MAY: "?", WILL: "~", ADDED: "+", REMOVED: "-"}
COLOURS = {"+": "green", "-": "magenta", "~": "yellow", "?": "yellow", "!": "red", "=": ""}

Style = Callable[[str, str], str]
"""A text and a colour -> the text in that colour; the empty colour leaves it."""


def amount(count: float) -> str:
    """Bytes in the unit a person reads, as ui.progress writes them (ui is the commands' alone)."""
    for unit in ("B", "kB", "MB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def sizes(layer: LayerChange) -> str:
    """Old and new size; `about` where it is an estimate."""
    amounts = [amount(layer.bytes(side)) if layer.bytes(side) or layer.known(side) else ""
               for side in (0, 1)]
    if amounts[0] == amounts[1] and layer.known(0):
        return amounts[0]
    told = [("" if layer.known(side) else "about ") + amounts[side]
            for side in (0, 1) if amounts[side]]
    return " -> ".join(dict.fromkeys(told))


def moved(change: Change) -> str:
    """Old and new of a change in one text."""
    if change.old and change.new:
        return f"{change.old} -> {change.new}"
    return change.new or change.old


def headline(report: Report) -> str:
    return f"{report.verdict} (exit code {report.exit_code})"


def text(report: Report, style: Style = lambda text, _colour: text) -> Iterator[str]:
    """The lines for a terminal."""
    yield f"old: {report.old['name']} ({report.old['kind']})"
    yield f"new: {report.new['name']} ({report.new['kind']})"
    for each in report.stops:
        yield ""
        yield style(f"STOP: {each.kind}: {each.name}", "red")
        yield from _detail(each, style)
    for group, heading in GROUPS.items():
        changes = [each for each in report.changes if each.group == group and not each.stop]
        if changes:
            yield ""
            yield heading
        for each in changes[:LONGEST]:
            mark = MARKS[each.kind]
            where = f" ({', '.join(each.where)})" if each.where else ""
            said = (": " if " " in each.name else " ").join(filter(None, (each.name, moved(each))))
            yield style(f"  {mark} {said}",
                        COLOURS[mark]) + where
            yield from (f"      {note}" for note in each.notes)
        if len(changes) > LONGEST:
            yield f"  and {len(changes) - LONGEST} more (--json lists all)"
    if report.layers:
        yield ""
        yield f"layers{f' of {report.image}' if report.image else ''}, {report.basis}"
        same = [each for each in report.layers if each.state == SAME and not each.why]
        for each in report.layers:
            if each not in same:
                yield from _layer(each, style)
        if same:
            yield f"  = {len(same)} the same: {', '.join(each.name for each in same)}"
    if report.difference:
        yield from _difference(report, style)
    if any(report.image_ids):
        ids = list(dict.fromkeys(report.image_ids))
        yield ""
        yield f"image ID: {' -> '.join(ids)}{', the same' if len(ids) == 1 else ''}"
    if report.proven is not None:
        yield "built: " + ("as foretold" if report.proven else style("not as foretold", "red"))
    yield from (f"note: {each}" for each in report.notes)
    yield ""
    colour = {0: "green", 10: "yellow", 20: "yellow", 1: "red"}[report.exit_code]
    yield style(headline(report), colour)


def _detail(change: Change, style: Style) -> Iterator[str]:
    for name, value in (*(("why", note) for note in change.notes),
                        ("where", ", ".join(change.where)), ("old", change.old),
                        ("new", change.new), ("next", change.next_step)):
        if value:
            yield style(f"  {name and name + ':':<7}{value}", "red" if name in ("old", "new")
                        else "")


def _layer(layer: LayerChange, style: Style) -> Iterator[str]:
    mark = LAYER_MARKS[layer.state]
    about = ", ".join(filter(None, (layer.state, layer.why, sizes(layer))))
    yield style(f"  {mark} {layer.name}: {about}", COLOURS[mark])
    digests = [known[0] for known in (layer.old, layer.new) if known]
    if layer.state != SAME and digests:
        yield f"      {' -> '.join(digests)}"


def _difference(report: Report, style: Style) -> Iterator[str]:
    found = report.difference
    yield ""
    yield f"first difference{f' in layer {found.layer}' if found.layer else ''}, " + (
        f"of {found.count} entries:" if found.count > 1 else "of one entry:")
    yield style(f"  {found.entry}: its {found.field}: {found.old} -> {found.new}", "yellow")
    yield from (f"    {line}" for line in found.text.splitlines())


def markdown(report: Report) -> Iterator[str]:
    """For a pull request."""
    yield f"**{headline(report)}**, {_code(report.old['name'])} to {_code(report.new['name'])}"
    for each in report.stops:
        yield ""
        yield f"> **STOP: {each.kind}: {_plain(each.name)}**  "
        yield from (f"> {_plain(line.strip())}  " for line in _detail(each, lambda one, _: one))
    if report.layers:
        yield ""
        yield f"| layer ({report.basis}) | part | state | why | bytes |"
        yield "|---|---|---|---|---|"
        for each in report.layers:
            state = each.state if each.state == SAME else f"**{each.state}**"
            yield "| " + " | ".join((_plain(each.name), each.part, state, _plain(each.why),
                                     sizes(each))) + " |"
    changes = [each for each in report.changes if not each.stop]
    if changes:
        yield ""
        yield "| what | name | change | notes |"
        yield "|---|---|---|---|"
    for group, heading in GROUPS.items():
        for each in (one for one in changes if one.group == group):
            notes = "; ".join((*each.where, *each.notes))
            change = ": ".join(filter(None, (each.kind, _plain(moved(each)))))
            yield f"| {heading} | {_code(each.name)} | {change} | {_plain(notes)} |"
    if report.difference:
        found = report.difference
        yield ""
        yield f"First difference: {_code(found.entry)}, its {found.field}, of {found.count} in " \
              f"{_plain(found.layer or 'the tree')}"
        yield "```diff"
        yield from (found.text or f"-{found.old}\n+{found.new}").replace("```", "'''").splitlines()
        yield "```"
    for each in report.notes:
        yield ""
        yield _plain(each)


def _plain(value: str) -> str:
    """A text that Markdown shows as it is, in one cell of a table."""
    found = value.replace("\n", " ")
    for each in "\\`*_[]<>|":
        found = found.replace(each, f"\\{each}")
    return found


def _code(value: str) -> str:
    return f"`{value.replace('`', chr(39)).replace('|', chr(92) + '|')}`"
