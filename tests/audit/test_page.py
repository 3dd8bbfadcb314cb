"""What people read: the page, the pull request's text and the terminal's.

The page was looked at in headless Chromium, 1280 pixels wide, light and dark: docs/audit.md.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from apertus_image.audit.html import page
from apertus_image.audit.layermap import LEFT, LINE
from apertus_image.audit.render import markdown, text
from apertus_image.audit.report import (
    ADDED,
    DEPENDENCY,
    MAY,
    OVERLAY,
    REMOVED,
    SAME,
    WILL,
    Change,
    Difference,
    LayerChange,
    Report,
)

EMPTY = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
HOSTILE = '<script>alert("x")</script> & `a` | *b*'
SIZES = {"userland": 500, "cuda": 4000, "torch": 3000, "tiny": 1, "small": 90, "libraries": 2000,
         "environment": 5, "patches": 1}


class Parsed(HTMLParser):
    """Elements, well nested, and the texts of each kind."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data.strip()))

    def of(self, tag):
        return [data for where, data in self.texts if where == tag and data]


def layers(sizes=SIZES, **states):
    return [LayerChange(name, OVERLAY if name == "patches" else DEPENDENCY,
                        states.get(name, SAME), "why",
                        (f"sha256:{'1' * 64}", size), (f"sha256:{'2' * 64}", size))
            for name, size in sizes.items()]


def report(**more) -> Report:
    fields = {"old": {"name": "v1", "kind": "revision"}, "new": {"name": "v2", "kind": "revision"},
              "basis": "predicted", "image": "apertus-image"}
    return Report(**(fields | more))


FULL = report(
    layers=layers(torch=WILL, tiny=MAY, libraries=ADDED, environment=REMOVED, patches=WILL),
    changes=[Change("wheel", "moved", HOSTILE, "1", "2", ("wheels", "x86_64"), (HOSTILE,)),
             Change("input", "hash changed", "n", "sha256-a", "sha256-b", stop=True,
                    next_step="find out why"),
             Change("config", "changed", "Env LANG", "C", "D")],
    difference=Difference("patches", f"/{HOSTILE}", "content", "a", "b", 3, "-x\n+<b>y"),
    notes=[HOSTILE], image_ids=(f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"))


def test_the_page_parses_and_nothing_of_the_pins_becomes_markup():
    found = Parsed(page(FULL))
    assert {tag for tag, _ in found.elements} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "code", "pre", "div",
        "strong", "span", "table", "tr", "th", "td", "br", "svg", "text", "rect", "path", "polygon"}
    assert HOSTILE in found.of("code") and f"/{HOSTILE}" in found.of("code")


def test_the_page_asks_for_nothing():
    source = page(FULL)
    found = Parsed(source)
    assert not re.search(r"url\(|@import|https?:|<script|<link|<iframe", source.replace(
        "&lt;script", ""))
    assert not {name for _, attrs in found.elements for name in attrs} & {
        "src", "href", "onload", "onclick", "xlink:href", "data", "action"}
    assert "prefers-color-scheme: dark" in source and "color-scheme: light dark" in source


def labels(source):
    """(text, height) of what stands beside the two bars."""
    return [(label, float(attrs["y"])) for (_, attrs), label in zip(
        [each for each in Parsed(source).elements if each[0] == "text"],
        Parsed(source).of("text"), strict=True) if attrs.get("text-anchor") != "middle"]


@pytest.mark.parametrize("sizes", [
    SIZES, {f"layer{number}": 100 for number in range(40)},
    {"one": 1}, {f"l{number}": 10 ** (number % 6) for number in range(38)} | {"patches": 1}])
def test_every_layer_of_a_hundredth_has_a_label_on_both_sides_and_none_overlap(sizes):
    source = page(report(layers=layers(sizes, patches=WILL)))
    wanted = {name for name, size in sizes.items() if size >= 0.01 * sum(sizes.values())}
    found = labels(source)
    for side in ("end", "start"):
        told = [label for label, (tag, attrs) in zip(
            Parsed(source).of("text"), [e for e in Parsed(source).elements if e[0] == "text"],
            strict=True) if attrs.get("text-anchor") == side]
        assert wanted <= {label.split()[0] for label in told}, side
    heights = sorted(height for _, height in found)
    bottom = float(re.search(r'viewBox="0 0 \d+ (\d+)"', source)[1])
    assert heights[0] > 0 and heights[-1] <= bottom
    for anchor in ("end", "start"):
        own = sorted(float(attrs["y"]) for tag, attrs in Parsed(source).elements
                     if tag == "text" and attrs.get("text-anchor") == anchor)
        assert all(b - a >= LINE - 0.2 for a, b in zip(own, own[1:], strict=False))


def test_the_longest_label_fits_beside_its_bar():
    changed = [replace(each, name="n" * 60, state=MAY, new=None, estimate=(123456789, 123456789))
               for each in layers({"one": 1})]
    for label, _ in labels(page(report(layers=changed))):
        # 6.6 pixels a character of DejaVu Sans at 13 pixels (seen).
        assert label.startswith("n" * 27) and 6.6 * len(label) <= LEFT - 26


def test_the_map_is_to_size():
    boxes = [attrs for tag, attrs in Parsed(page(report(layers=layers()))).elements
             if tag == "rect"]
    heights = [float(each["height"]) for each in boxes[: len(SIZES)]]
    total = sum(SIZES.values())
    for height, size in zip(heights, SIZES.values(), strict=True):
        assert height == pytest.approx(560 * size / total, abs=0.01)
    tops = [float(each["y"]) for each in boxes[: len(SIZES)]]
    assert tops == sorted(tops, reverse=True)  # the lowest layer at the foot


def test_a_layer_of_one_side_is_drawn_there_alone():
    source = page(report(layers=layers(libraries=ADDED, environment=REMOVED)))
    boxes = [(attrs["x"], attrs["class"]) for tag, attrs in Parsed(source).elements
             if tag == "rect"]
    assert len({x for x, name in boxes if "added" in name}) == 1
    assert len(boxes) == 2 * len(SIZES) - 2


def test_a_page_without_layers_has_no_map():
    assert "<svg" not in page(report()) and Parsed(page(report())).of("h1")


def test_what_stops_comes_first_in_every_form():
    for form in (page(FULL), "\n".join(text(FULL)), "\n".join(markdown(FULL))):
        assert form.lower().index("stop: hash changed") < form.index("Env LANG")
        assert "find out why" in form and "exit code 1" in form


def test_markdown_keeps_the_cells_of_its_tables():
    lines = [line for line in markdown(FULL) if line.startswith("| ")]
    for line in lines:
        assert len(re.findall(r"(?<!\\)\|", line)) in (5, 6)
    assert not any("<script>" in line and "`" not in line for line in lines)


def test_the_terminals_text_is_short_and_coloured_only_if_asked():
    many = report(changes=[Change("wheel", "moved", f"w{number}", "1", "2")
                           for number in range(100)])
    lines = list(text(many))
    assert len(lines) < 30 and "  and 80 more (--json lists all)" in lines
    assert not any("\x1b" in line for line in lines)
    assert any("<red>" in line for line in text(FULL, lambda one, colour: f"<{colour}>{one}"))


@pytest.mark.parametrize(("states", "more", "code"), [
    ({}, {}, 0), ({"patches": WILL}, {}, 10), ({"patches": MAY}, {}, 10),
    ({"torch": WILL}, {}, 20), ({"torch": MAY}, {}, 20), ({"torch": REMOVED}, {}, 20),
    ({}, {"changes": [Change("config", "changed", "Env A", "1", "2")]}, 10),
    ({}, {"image_ids": ("sha256:1", "sha256:2")}, 10),
    ({}, {"changes": [Change("code", "changed", "nix")]}, 0),
    ({"patches": WILL}, {"changes": [Change("lock", "changed", "x", stop=True)]}, 1),
    ({}, {"proven": False}, 1), ({}, {"proven": True}, 0), ({}, {"least": 20}, 20),
])
def test_the_exit_code_and_the_verdict(states, more, code):
    made = report(layers=layers(**states), **more)
    assert made.exit_code == code and made.verdict
    assert made.json()["exit_code"] == code
