"""A release under kills written down for people, from what its runs said. No host, no path."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from apertus_image.release.profile import STEPS
from apertus_image.ui.progress import size
from support.kills import Aim, Run

__all__ = ["Killed", "page"]

WENT_ON = re.compile(r"goes on at (\d+) of \d+ bytes")


@dataclass(frozen=True)
class Killed:
    """One kill, and what followed.

    Attributes:
        state: what lay where afterwards.
        next: the run after it, itself killed or not.
    """

    aim: Aim
    run: Run
    state: str
    next: Run


def page(commit: str, command: str, reference: Run, kills: Sequence[Killed], last: Run,
         compared: Iterable[tuple[str, str]]) -> str:
    """The page.

    Args:
        command: the test's.
        reference: the undisturbed release.
        last: the run that ended well.
        compared: names and the digests that both releases have.
    """
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    hit = [each for each in kills if each.run.killed is not None]
    total = sum(each.run.killed or each.run.lines[-1][0] for each in kills) + last.lines[-1][0]
    return "\n".join([
        "# apertus-image, released under kills",
        "",
        f"Written by `{command}` on {datetime.now(UTC):%Y-%m-%d}, from commit `{commit}`, on a "
        f"machine of {os.cpu_count()} cores and {gib:.0f} GiB that others used too. One release "
        "by `tools/release --profile laptop` from a clean clone ran undisturbed, "
        f"{reference.lines[-1][0]:.0f} s. Another, from a second clone and in other places, was "
        f"given {len(kills) + 1} times: {len(hit)} runs were killed, the last one ended well. "
        f"All of them together took {total:.0f} s. The image was in the store before: the "
        "step build found it there.",
        "",
        "SIGKILL went to the process group, and the next run began as soon as what shares its "
        "stderr was gone. What is not in the group has to end by itself: the registry's server, "
        "and what Nix builds in its sandbox. All did, the last "
        f"{max(each.run.gone for each in hit):.1f} s after its kill.",
        "",
        "Right after each kill every file under a final name and every blob of the registry was "
        "whole, by SHA-256: that of the undisturbed release, or the digest in its name. Every note "
        "of a step or an upload could be read. No tag was there before all published files were. "
        "At the end nothing was left beside the names, no lock, no note of an upload, and less "
        "than one chunk in uploads. `tools/registry fsck`'s full check found nothing.",
        "",
        *_table(("step", "undisturbed", "last run"),
                ((step, _took(reference, step), _took(last, step)) for step in STEPS)),
        "",
        "A kill's seconds count from the step's line on stderr; a later step is killed at its "
        "line. Where a step had ended before its kill, it was undone (its note taken away, or the "
        "export) and tried again by its newest length. The lint's report was taken out of the "
        "store before each check. The run that follows is the next row's; what it did until its "
        "own kill is told here.",
        "",
        *_table(("", "aimed at", "killed in", "after", "programs running", "left", "the next run"),
                (_row(number, each) for number, each in enumerate(kills, 1))),
        "",
        *_table(("compared", "both releases"),
                ((name, f"`{digest}`") for name, digest in compared)),
        "",
    ])


def _row(number: int, each: Killed) -> tuple[str, ...]:
    run, step = each.run, each.run.step
    if run.killed is None:
        where, after = "not: it ended before", ""
    else:
        where = step or "between two steps"
        after = f"{run.killed - run.begun[step]:.1f} s" if step else ""
    running = ", ".join(sorted({process.name for process in run.running}))
    return (str(number), str(each.aim), where, after, running, each.state, _did(each.next))


def _did(run: Run) -> str:
    """What a run took from those before it."""
    went_on = [int(found[1]) for _, line in run.lines if (found := WENT_ON.search(line))]
    words = {
        f"took {', '.join(run.before)} as done": run.before,
        f"went on with {len(went_on)} uploads at {size(sum(went_on))}": went_on,
        "did " + ", ".join(f"{step} in {length:.0f} s" for step, length in run.lengths.items()):
            run.lengths,
    }
    return "; ".join(text for text, there in words.items() if there)


def _took(run: Run, step: str) -> str:
    if step in run.lengths:
        return f"{run.lengths[step]:.1f} s"
    return "done before" if step in run.before else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    def line(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(cells)} |"

    return [line(head), "|---" * len(head) + "|", *map(line, rows)]
