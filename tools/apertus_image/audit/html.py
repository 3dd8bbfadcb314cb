"""An audit as one page: nothing is fetched, no script runs, light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from apertus_image.audit.layermap import drawn
from apertus_image.audit.render import headline, moved, sizes
from apertus_image.audit.report import GROUPS, MAY, SAME, WILL, Change, Report

__all__ = ["page"]

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #fff; --line: #d1d9e0;
  --same: #c8d1da; --may: #d4a72c; --will: #d1570b; --added: #1a7f37; --removed: #8250df;
  --stop: #c21a1a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9aa4af; --paper: #0f1318; --line: #333b44; --same: #47515c;
    --may: #c9960c; --will: #e8731c; --added: #2ea043; --removed: #a371f7; --stop: #ff6b62; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 1200px; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
code, pre { font: 12.5px/1.45 ui-monospace, monospace; } pre { white-space: pre-wrap; }
table { width: 100%; border-collapse: collapse; }
.changes { table-layout: fixed; } .changes td { width: 38%; }
.changes td:first-child { width: 10%; }
.changes td:nth-child(2) { width: 32%; } .changes td:last-child { width: 20%; }
th { text-align: left; font-weight: 600; color: var(--soft); }
td, th { padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
.stop { border-left: 4px solid var(--stop); padding: .2rem 1rem; margin: 1rem 0; }
.stop strong { color: var(--stop); } .state, .part { white-space: nowrap; }
.state { font-weight: 600; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--ink); font-size: 13px; }
svg .soft { fill: var(--soft); } .lead { stroke: var(--soft); stroke-width: 1; fill: none; }
.box { stroke: var(--paper); stroke-width: 1; } .ribbon { opacity: .25; }
""" + "".join(f".{name} {{ fill: var(--{name}); }} td.{name} {{ color: var(--{name}); }}\n"
              for name in ("may", "will", "added", "removed")) + (
    ".same { fill: var(--same); } td.same { color: var(--soft); }\n")


def page(report: Report) -> str:
    """The page's text."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    title = f"{report.old['name']} to {report.new['name']}"
    yield ('<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
           '<meta name="viewport" content="width=device-width, initial-scale=1">')
    yield f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    yield f"<h1>{escape(headline(report))}</h1>"
    yield (f'<p class="soft">{_named(report.old)} to {_named(report.new)}'
           f"{escape(f', {report.image}') if report.image else ''}</p>")
    for each in report.stops:
        yield from _stop(each)
    if report.layers:
        yield from _layers(report)
    if report.difference:
        found = report.difference
        yield "<h2>First difference</h2>"
        yield (f"<p><code>{escape(found.entry)}</code>, its {escape(found.field)}: "
               f"{escape(found.old)} to {escape(found.new)}; {found.count} in all, in "
               f"{escape(found.layer or 'the tree')}</p>")
        if found.text:
            yield f"<pre>{escape(found.text)}</pre>"
    for group, heading in GROUPS.items():
        changes = [each for each in report.changes if each.group == group and not each.stop]
        if changes:
            yield f"<h2>{escape(heading)}</h2>\n<table class=\"changes\">"
            yield from (_change(each) for each in changes)
            yield "</table>"
    if any(report.image_ids):
        yield "<h2>Image ID</h2>"
        yield from (f"<p><code>{escape(each)}</code></p>"
                    for each in dict.fromkeys(report.image_ids))
    yield from (f"<p>{escape(each)}</p>" for each in report.notes)
    yield "</body>\n</html>"


def _named(side: Mapping[str, str]) -> str:
    return f"<code>{escape(side['name'])}</code> ({escape(side['kind'])})"


def _stop(change: Change) -> Iterator[str]:
    yield f'<div class="stop"><p><strong>Stop: {escape(change.kind)}: {escape(change.name)}' \
          "</strong></p>"
    for name, value in (("old", change.old), ("new", change.new),
                        ("where", ", ".join(change.where)),
                        ("why", "; ".join(change.notes)), ("next", change.next_step)):
        if value:
            yield f'<p><span class="soft">{name}:</span> {escape(value)}</p>'
    yield "</div>"


def _layers(report: Report) -> Iterator[str]:
    how = {"predicted": "as foretold; nothing was built", "recorded": "as recorded",
           "built": "as built" + ("" if report.proven is None else ", and as foretold"
                                  if report.proven else ", and not as foretold")}
    yield "<h2>Layers</h2>"
    yield f'<p class="soft">Drawn to size, {how.get(report.basis, report.basis)}. “About” is ' \
          "an estimate by the pinned files, where no built image is known.</p>"
    yield from drawn(report.layers)
    yield "<table>\n<tr><th>layer</th><th>part</th><th>state</th><th>why</th><th>bytes</th></tr>"
    for each in report.layers:
        name = _css(each.state)
        digests = [known[0] for known in (each.old, each.new) if known]
        yield (f'<tr><td>{escape(each.name)}</td><td class="part">{each.part}</td>'
               f'<td class="state {name}">{each.state}</td><td>{escape(each.why)}'
               + "".join(f"<br><code>{escape(digest)}</code>" for digest in digests
                         if each.state != SAME)
               + f"</td><td>{escape(sizes(each))}</td></tr>")
    yield "</table>"


def _css(state: str) -> str:
    """The class of a layer's state."""
    return {MAY: "may", WILL: "will"}.get(state, state)


def _change(change: Change) -> str:
    said = "<br>".join(map(escape, filter(None, (moved(change), *change.notes))))
    return (f"<tr><td>{escape(change.kind)}</td><td><code>{escape(change.name)}</code></td>"
            f"<td>{said}</td>"
            f'<td class="soft">{escape(", ".join(change.where))}</td></tr>')
