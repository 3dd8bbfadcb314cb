"""The layer map: two images drawn to size, old beside new, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from apertus_image.audit.render import amount
from apertus_image.audit.report import MAY, SAME, WILL, LayerChange

__all__ = ["SHARE", "drawn"]

SHARE = 0.01  # of the bytes: every layer of so much has a label
WIDTH, HEIGHT, TOP = 1180, 560, 30
BAR, LEFT, RIGHT = 110, 440, 630  # a bar's width, and where the two begin
LINE = 20  # between labels
LONGEST = 28  # characters of a name: what fits beside a bar with all that follows it
CLASSES = {MAY: "may", WILL: "will"}


@dataclass(frozen=True)
class _Box:
    """A layer on one side: from `y` for `height` pixels."""

    layer: LayerChange
    y: float
    height: float
    bytes: int
    share: float


def drawn(layers: Sequence[LayerChange]) -> Iterator[str]:
    """The lines of the SVG; the lowest layer is at the foot."""
    totals = [sum(layer.bytes(side) for layer in layers) for side in (0, 1)]
    scale = HEIGHT / max(*totals, 1)
    sides = [_boxes(layers, side, totals[side], scale) for side in (0, 1)]
    labels = [_placed([box for box in boxes if _labelled(box)]) for boxes in sides]
    bottom = max([TOP + HEIGHT, *(y for one in labels for _, y in one)]) + LINE
    yield (f'<svg viewBox="0 0 {WIDTH} {bottom:.0f}" role="img" '
           'aria-label="The layers of both images, drawn to size">')
    yield from _ribbons(*sides)
    for side, (boxes, x) in enumerate(zip(sides, (LEFT, RIGHT), strict=True)):
        middle = x + BAR / 2
        yield (f'<text x="{middle}" y="16" text-anchor="middle">{("old", "new")[side]}, '
               f"{escape(_about(boxes))}</text>")
        for box in boxes:
            yield (f'<rect class="box {_class(box.layer)}" x="{x}" y="{box.y:.2f}" width="{BAR}" '
                   f'height="{box.height:.2f}"><title>{escape(_label(box, side))}</title></rect>')
        yield from _labels(labels[side], side)
    yield "</svg>"


def _boxes(layers: Sequence[LayerChange], side: int, total: int, scale: float) -> list[_Box]:
    found, foot = [], float(TOP + HEIGHT)
    for layer in layers:
        count = layer.bytes(side)
        if count:
            height = count * scale
            foot -= height
            found.append(_Box(layer, foot, height, count, count / total))
    return found


def _labelled(box: _Box) -> bool:
    return box.share >= SHARE or box.layer.state != SAME


def _placed(boxes: list[_Box]) -> list[tuple[_Box, float]]:
    """Each box with the height of its label: near its middle, and clear of the next."""
    found, floor = [], 0.0
    for box in sorted(boxes, key=lambda box: box.y):
        floor = max(box.y + box.height / 2, floor + LINE if found else TOP)
        found.append((box, floor))
    # What was pushed out below moves up again, as far as there is room.
    ceiling = float(TOP + HEIGHT)
    for number in reversed(range(len(found))):
        box, y = found[number]
        found[number] = box, max(min(y, ceiling), TOP + number * LINE)
        ceiling = found[number][1] - LINE
    return found


def _labels(placed: list[tuple[_Box, float]], side: int) -> Iterator[str]:
    edge, out = ((LEFT, -1), (RIGHT + BAR, 1))[side]
    anchor = ("end", "start")[side]
    for box, y in placed:
        middle = box.y + box.height / 2
        yield (f'<path class="lead" d="M{edge} {middle:.1f} L{edge + out * 14} {y:.1f} '
               f'L{edge + out * 20} {y:.1f}"/>')
        yield (f'<text x="{edge + out * 26}" y="{y + 5:.1f}" text-anchor="{anchor}">'
               f"{escape(_label(box, side))}</text>")


def _label(box: _Box, side: int) -> str:
    name, about = box.layer.name, "" if box.layer.known(side) else "about "
    name = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    share = f"{box.share:.0%}" if box.share >= SHARE else ""
    state = "" if box.layer.state == SAME else box.layer.state
    return ", ".join(filter(None, (f"{name} {about}{amount(box.bytes)}", share, state)))


def _about(boxes: list[_Box]) -> str:
    return amount(sum(box.bytes for box in boxes))


def _class(layer: LayerChange) -> str:
    return CLASSES.get(layer.state, layer.state)


def _ribbons(old: list[_Box], new: list[_Box]) -> Iterator[str]:
    """From each layer to itself on the other side."""
    after = {id(box.layer): box for box in new}
    for box in old:
        other = after.get(id(box.layer))
        if other is not None:
            points = ((LEFT + BAR, box.y), (RIGHT, other.y), (RIGHT, other.y + other.height),
                      (LEFT + BAR, box.y + box.height))
            path = " ".join(f"{x},{y:.2f}" for x, y in points)
            yield f'<polygon class="ribbon {_class(box.layer)}" points="{path}"/>'
