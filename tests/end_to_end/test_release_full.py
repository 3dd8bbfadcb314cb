"""A release of the full image by the laptop's profile: killed in every step, and the same bits.

    APERTUS_SLOW_TESTS=1 APERTUS_EVIDENCE=docs/evidence \
        tools/test tests/end_to_end/test_release_full.py

takes half an hour, and writes release-under-kills.md into the folder named.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from apertus_image.registry.chunks import SIZE as CHUNK
from apertus_image.registry.server.folder import Folder
from apertus_image.registry.server.fsck import check
from apertus_image.release.profile import STEPS
from support import images
from support.checkout import clean_clone
from support.killed_page import Killed, page
from support.kills import Aim, Run, adopting, run
from support.releasing import needs_programs
from support.remains import Places, Undisturbed, moments

pytestmark = [
    pytest.mark.nix,
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("APERTUS_SLOW_TESTS"),
                       reason="not run: takes half an hour (set APERTUS_SLOW_TESTS)"),
    needs_programs,
]
COMMAND = ("APERTUS_SLOW_TESTS=1 APERTUS_EVIDENCE=docs/evidence "
           "tools/test tests/end_to_end/test_release_full.py")
NEEDED = 32 * 2**30
# Random moments within a step: where gigabytes are moved, more of them.
TIMES = dict.fromkeys(STEPS, 2) | {"push": 6, "export": 6, "check": 4, "publish": 4}
LONG = ("push", "export", "check", "publish")
AGAIN = ("prefetch", "build", "export", "check", "record")
TRIES = 4


@pytest.fixture
def scratch(tmp_path):
    if not images.full_image_is_here():
        pytest.skip("not run: the full image is not in the store (tools/build)")
    if shutil.disk_usage(tmp_path).free < NEEDED:
        pytest.skip("not run: no room for two releases of the full image")
    yield tmp_path
    for each in tmp_path.iterdir():
        if each.is_dir():  # what the runs said stays
            shutil.rmtree(each)


class Site:
    """A clean clone, and places of its own for what the profile `laptop` names."""

    def __init__(self, at: Path) -> None:
        self.clone = clean_clone(at / "clone")
        self.places = Places(published=at / "images", scratch=at / "cache/apertus-image/release",
                             registry=at / "data/apertus-image/registry", state=at / "state")
        self._environment = os.environ | {
            "APERTUS_IMAGES": str(at / "images"), "XDG_CACHE_HOME": str(at / "cache"),
            "XDG_DATA_HOME": str(at / "data"), "XDG_STATE_HOME": str(at / "state")}

    def release(self, aim: Aim | None = None) -> Run:
        return run([self.clone / "tools/release", "--profile", "laptop"], self._environment, aim)


    def undo(self, step: str) -> None:
        """Take away what makes a step be done only once."""
        notes = [self.places.work / f"steps/{step}.json"]
        exports = (self.places.work / "files").glob("*.sqsh*") if step == "export" else ()
        for each in [*notes, *exports]:
            each.unlink(missing_ok=True)


def forget_lint() -> None:
    """Take the lint's report out of the store, so that the step check makes it."""
    for maker in ("emitter", "nix2container"):
        found = images.nix("path-info", f"{images.PROJECT}#apertus-image-lint", by=maker)
        if found.returncode == 0:
            subprocess.run(["nix-store", *images.STORE.nix_args(), "--delete",
                            found.stdout.strip()], capture_output=True)


def aims(step: str, places: Places, chance: random.Random) -> Iterator[tuple[Aim, int]]:
    """A step's kills, and how often to try: at its line, at random moments, when names are given.

    Their `after` are parts of the step's length. A push goes on where it was, so its moments add
    up; other steps begin anew, so theirs are spread over it.
    """
    times = TIMES[step]
    part = 1 / (times + 2 if step == "push" else times)
    spread = [part * (chance.uniform(0.5, 1.5) if step == "push"
                      else chance.uniform(number, number + 1)) for number in range(times)]
    named = [(moments(places)[step], 1)] if step in moments(places) else []
    yield Aim(step, 0), 1
    if step in ("push", "attach"):  # while there are blobs to come
        yield from named
    for after in spread:
        if step == "publish":  # once all is published there is nothing to kill
            yield replace(named[0][0], after=after), 1
        else:
            yield Aim(step, after), TRIES
    if step == "export":  # a file that has its name, but no record, is read back
        yield from (*named, (Aim(step, 0.1), 1), (Aim(step, 0.2), 1))
    elif step in ("record", "publish"):
        yield from named * 6


def test_killed_in_every_step_it_goes_on_to_the_same_bytes(scratch):
    first, second = Site(scratch / "reference"), Site(scratch / "killed")
    kills: list[tuple[Aim, Run, str]] = []
    log = (scratch / "runs.log").open("w")

    def told(what: object, done: Run) -> Run:
        print(f"{time.strftime('%H:%M:%S')} {what}: exit {done.code}, killed at {done.killed}, in "
              f"{done.step or '-'}, running {[process.name for process in done.running]}",
              *(f"  {when:7.2f} {line}" for when, line in done.lines), sep="\n", file=log,
              flush=True)
        return done

    with log, adopting():
        forget_lint()
        reference = told("undisturbed", first.release())
        assert reference.code == 0, reference.said
        undisturbed = Undisturbed(first.places)
        shutil.rmtree(first.places.registry)  # blobs have their digests for names
        chance = random.Random(7)

        def kill(aim: Aim) -> Run:
            done = told(aim, second.release(aim))
            state = second.places.state_in_words()
            print(f"  left: {state}", file=log, flush=True)
            assert done.code in (-9, 0), done.said
            assert not undisturbed.faults(second.places)
            kills.append((aim, done, state))
            return done

        for step in STEPS:
            length = reference.lengths[step]
            for aim, tries in aims(step, second.places, chance):
                for left in reversed(range(tries)):
                    if step == "check":
                        forget_lint()
                    done = kill(replace(aim, after=aim.after * length))
                    if done.step == step:
                        break
                    # It had ended before: its newest length says when to come.
                    length = done.lengths.get(step, length)
                    if left and step in AGAIN:
                        second.undo(step)
        last = told("last", second.release())
    assert last.code == 0, last.said
    assert Path(last.output).is_file()
    assert undisturbed.digests(second.places.published) == undisturbed.published
    assert undisturbed.digests(second.places.work / "files") == undisturbed.work
    assert set(second.places.layout.blobs()) == undisturbed.blobs
    assert check(Folder(second.places.registry).data, full=True, repair=False).clean
    assert not second.places.left_over()
    assert second.places.in_uploads() < CHUNK
    assert Folder(second.places.registry).holder() is None
    # And it was killed where the work is: all steps, and each long one several times.
    within = [done.step for _, done, _ in kills if done.killed is not None]
    assert set(within) >= set(STEPS)
    assert {step for step in LONG if within.count(step) > TIMES[step] / 2} == set(LONG)
    evidence(scratch, first, reference, kills, last, undisturbed)


def evidence(scratch: Path, site: Site, reference: Run, kills: list[tuple[Aim, Run, str]],
             last: Run, undisturbed: Undisturbed) -> None:
    after = [*(done for _, done, _ in kills[1:]), last]
    record = json.loads(next(site.places.published.glob("*.record.json")).read_bytes())
    text = page(record["source"]["commit"], COMMAND, reference,
                [Killed(aim, done, state, following)
                 for (aim, done, state), following in zip(kills, after, strict=True)], last,
                [*sorted(undisturbed.published.items())])
    folder = Path(os.environ.get("APERTUS_EVIDENCE") or scratch)
    (folder / "release-under-kills.md").write_text(text)
