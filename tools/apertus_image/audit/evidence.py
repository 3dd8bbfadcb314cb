"""A reproduction written down for people: what was varied, what came out. No host, no path."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from apertus_image.audit.reproduce import Report
from apertus_image.errors import UserError
from apertus_image.place.whole import write_whole

__all__ = ["markdown", "write"]


def write(report: Report, folder: Path) -> Path:
    """Write `reproduce-IMAGE.md`, in place of an older one; its path.

    Raises:
        UserError: the folder cannot be written.
    """
    file = folder / f"reproduce-{report.image}.md"
    try:
        write_whole(file, markdown(report, datetime.now(UTC)).encode())
    except OSError as error:
        raise UserError("the evidence cannot be written", where=folder, got=error.strerror,
                        expected="a folder that can be written to") from error
    return file


def markdown(report: Report, when: datetime) -> str:
    """The page."""
    found = "the same, bit for bit" if report.same else "**not the same**"
    lines = [
        f"# {report.image}, built twice",
        "",
        f"Written by `tools/reproduce` on {when:%Y-%m-%d}, from commit `{report.commit}`: {found}. "
        f"The second build made {report.built} derivations again, all of the image's that have no "
        f"pinned hash, in a store that held {report.inputs} fixed inputs and nothing else.",
        "",
        *_table(("varied", "first build", "second build"),
                ((each.what, each.first, each.second or f"not varied: {each.why}")
                 for each in report.varied)),
        "",
        *_table(("compared", "first build", "second build"),
                ((each.what, f"`{each.first}`", "same" if each.same else f"**`{each.second}`**")
                 for each in report.compared)),
    ]
    if one := report.difference:
        lines += ["", f"First difference: {report.layer}, `{one.entry}` (from {one.tree}), its "
                  f"{one.field}: `{one.first}`, then `{one.second}`."]
    return "\n".join(lines) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    def line(cells: tuple[str, ...]) -> str:
        escaped = (cell.replace("|", "\\|") for cell in cells)
        return f"| {' | '.join(escaped)} |"

    return [line(head), "|---" * len(head) + "|", *map(line, rows)]
