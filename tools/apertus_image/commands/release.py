"""tools/release: from a clean commit to a recorded, verified artefact."""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from apertus_image.application.prepared import USUAL_PLACE
from apertus_image.build.maker import Maker, choose
from apertus_image.build.run import root
from apertus_image.commands.prefetch import bring
from apertus_image.commands.project import (
    PROJECT,
    maker_option,
    place_option,
    setup_option,
    source_place,
)
from apertus_image.errors import UserError
from apertus_image.fetch.plan import machine_of
from apertus_image.place.purge import warning
from apertus_image.release import slurm
from apertus_image.release.context import Context
from apertus_image.release.gate import GateResult, gate
from apertus_image.release.machine import go_on
from apertus_image.release.profile import STEPS, Profile
from apertus_image.release.publish import point
from apertus_image.release.source import tree_of
from apertus_image.release.state import Folder
from apertus_image.release.steps import steps
from apertus_image.store.store import Store
from apertus_image.tree.machine import this_machine
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress

__all__ = ["main"]

FOLDERS = "releases"
TRIED = STEPS[: STEPS.index("record") + 1]
"""The steps of what is not committed: nobody else is to see it."""


def say(line: str) -> None:
    """A line on stderr, in the place of one of progress."""
    click.echo(f"\r\x1b[K{line}" if sys.stderr.isatty() else line, err=True)


def loaded(context: click.Context, option: click.Parameter, name: str) -> Profile:
    """The profile, a subcommand's or the one before its name; faults are told as errors are."""
    usual = context.get_parameter_source(option.name) == ParameterSource.DEFAULT
    if usual and context.parent and "profile" in context.parent.params:
        return context.parent.params["profile"]
    return command_errors(Profile.load)(name)


profile_option = click.option(
    "--profile", default="laptop", show_default=True, metavar="NAME|FILE", callback=loaded,
    help="A site's profile: one of tools/apertus_image/release/profiles, or a YAML file.")


def steps_of(_context: click.Context, _option: click.Parameter, text: str | None) -> list[str]:
    """Names, separated by commas."""
    names = text.split(",") if text else []
    if unknown := [name for name in names if name not in STEPS]:
        raise click.BadParameter(f"{', '.join(unknown)}: not among {', '.join(STEPS)}")
    return names


@click.group(invoke_without_command=True)
@profile_option
@click.option("--image", default=None, help="Another output of the flake than the profile's.")
@click.option("--source", "sources", metavar="DIR", multiple=True,
              type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Add the files that this git checkout's commit tracks, submodules too.")
@place_option
@click.option("--allow-dirty", is_flag=True,
              help="Try what is not committed; names say -dirty, and it is not published.")
@click.option("--sign", "key", metavar="KEY", default=None,
              type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Sign the record with this SSH key.")
@click.option("--slurm", "by_slurm", is_flag=True, help="Submit the steps as dependent jobs.")
@click.option("--only", metavar="STEPS", callback=steps_of,
              help="Stop after these steps, separated by commas; jobs are started so.")
@click.option("--of", "submitted", metavar="NAME", default=None, hidden=True,
              help="The release that a job was submitted for.")
@click.option("--json", "as_json", is_flag=True, help="Print what was released.")
@maker_option
@setup_option
@click.pass_context
@command_errors
def main(
    context: click.Context, profile: Profile, image: str | None, sources: tuple[Path, ...],
    at: str | None, allow_dirty: bool, key: Path | None, by_slurm: bool, only: list[str],
    submitted: str | None, as_json: bool, wanted: str,
) -> None:
    """Release an image: gate, prefetch, build, push, export, check, record, attach, publish.

    Every step knows whether it is done: a release that was stopped, killed or failed goes on
    where it was when the same command is given again, here or in another allocation. Printed is
    the published file.

    \b
    Example:
      tools/release --profile laptop
      tools/release --profile clariden --source ~/nemo-rl --slurm
      tools/release status --profile clariden
    """
    if context.invoked_subcommand:
        return
    if by_slurm and only:
        raise UserError("--slurm submits every step that is not done", got="--only too",
                        next_step="say which steps are one job in the profile: slurm.jobs")
    if len(sources) > 1:
        raise UserError("one checkout can be added", got=", ".join(map(str, sources)))
    place = source_place(at, source=bool(sources))
    if image:
        profile = profile.of(image)
    machine_of(profile.image, this_machine())  # a misspelt one, before it has a folder
    # The site's, else the one of this shell or self-contained folder.
    own = os.environ.get("APERTUS_STORE")
    store = Store(profile.store or (Path(own).resolve() if own else None))
    passed = gate(PROJECT, sources, allow_dirty=allow_dirty, store=store)
    folder = _folder(profile, passed, place)
    if submitted not in (None, folder.path.name):
        raise UserError("this job's release is of another state of the clone or checkout",
                        where=PROJECT, expected=submitted, got=folder.path.name,
                        next_step="check out the commit that was submitted, or release again")
    # What is not committed can be other tomorrow, so nothing of it is taken as done.
    afresh = passed.dirty and not only
    served = (profile.registry or {}).get("serve")
    for each in (profile.publish, *([served] if served else [])):
        if words := warning(each):
            say(f"warning: {words}")
    if by_slurm:
        _submit(profile, folder, sources, place, allow_dirty, afresh, key, wanted, as_json)
        return
    if passed.dirty:
        only = [step for step in only if step in TRIED] or [TRIED[-1]]
    with folder.locked(afresh=afresh):
        results = _run(profile, store, wanted, folder, passed, sources, place, key, only)
    if passed.dirty and TRIED[-1] in results:
        say("not published, since it differs from its commit: commit, and release again")
    if as_json:
        click.echo(json.dumps(results))
    elif "publish" in results:
        click.echo(results["publish"]["file"])
    elif passed.dirty and "export" in results:
        click.echo(folder.files / results["export"]["file"])


def _folder(profile: Profile, passed: GateResult, at: str) -> Folder:
    """One release's folder: what is released, and where one's own code goes, names it."""
    place = [at.strip("/").replace("/", "-")] if passed.sources and at != USUAL_PLACE else []
    parts = [profile.image, passed.project.commit[:12],
             *(each.commit[:12] for each in passed.sources), *place,
             *(["dirty"] if passed.dirty else [])]
    return Folder(profile.scratch / FOLDERS / "-".join(parts))


def _brought(name: str, store: Store, maker: Maker) -> str:
    """Prefetch an image's inputs; the store path that keeps them."""
    bring([name], store, maker)
    return str(root(PROJECT, f"inputs-{name}", store, maker))


def _run(profile: Profile, store: Store, wanted: str, folder: Folder, passed: GateResult,
         sources: tuple[Path, ...], at: str, key: Path | None, only: list[str],
         ) -> dict[str, dict[str, Any]]:
    maker = choose(PROJECT, store, wanted)
    say(f"layers are made by {maker.name}: {maker.why}")
    application = tree_of(sources[0], at, store=store) if sources else None
    for words in application.warnings if application else ():
        say(f"warning: {words}")
    work = Context(
        project=PROJECT, profile=profile, store=store, maker=maker, folder=folder, gate=passed,
        application=application, bring=lambda name: _brought(name, store, maker),
        progress=lambda label, total: Progress(label, total).add, say=say, key=key)

    started = time.monotonic()

    def tell(step: str, what: str) -> None:
        nonlocal started
        if what == "begun":
            started = time.monotonic()
            say(f"{step} …")
        else:
            say(f"{step}: done" + (f" in {time.monotonic() - started:.0f} s"
                                   if what == "finished" else " before"))

    return go_on(steps(work), folder, only, tell)


def _submit(profile: Profile, folder: Folder, sources: tuple[Path, ...], at: str,
            allow_dirty: bool, afresh: bool, key: Path | None, wanted: str, as_json: bool
            ) -> None:
    if profile.slurm is None:
        raise UserError("the profile has no slurm part", where=profile.name,
                        next_step="--profile clariden, or a file of your own")
    command = [str(PROJECT / "tools/release"), "--profile", profile.origin,
               "--image", profile.image, "--maker", wanted, "--of", folder.path.name,
               *(["--allow-dirty"] if allow_dirty else []),
               *(["--sign", str(key.resolve())] if key else []),
               *(word for each in sources
                 for word in ("--source", str(each.resolve()), "--source-at", at))]
    slurm.free(folder)
    with folder.locked(afresh=afresh):
        pass  # not while they are submitted: the first may start at once
    undone = [step for step in STEPS if folder.read(step) is None]
    submitted = slurm.submit(profile.slurm, folder, command, undone or [STEPS[-1]])
    for each in submitted:
        say(f"job {each['job']}: {', '.join(each['steps'])}"
            + (f" (if job {each['job'] - 1} does not end well)" if each["attempt"] > 1 else ""))
    click.echo(json.dumps(submitted) if as_json else folder.path)


@main.command()
@profile_option
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@command_errors
def status(profile: Profile, as_json: bool) -> None:
    """Show the steps, jobs and times of every release under the profile's scratch folder.

    \b
    Example:
      tools/release status --profile clariden
    """
    places = sorted((profile.scratch / FOLDERS).glob("*/steps"))
    told = {place.parent.name: _rows(Folder(place.parent)) for place in places}
    if as_json:
        click.echo(json.dumps(told))
        return
    if not told:
        say(f"no release under {profile.scratch / FOLDERS}")
    for name, rows in told.items():
        click.echo(name)
        for row in rows:
            started = row["started"] and datetime.fromisoformat(row["started"]).astimezone()
            took = "" if row["seconds"] is None else f"{row['seconds']:.0f} s"
            click.echo(f"  {row['step']:<9} {row['state']:<8} "
                       f"{format(started, '%Y-%m-%d %H:%M:%S') if started else '':<20}"
                       f"{took:>8}  {row['attempts'] or '':>2}  {row['jobs']}".rstrip())


def _rows(folder: Folder) -> list[dict[str, Any]]:
    queued, rows = slurm.states(folder), []
    for step in STEPS:
        done = folder.read(step)
        times = done.times if done else folder.attempted(step)
        jobs = [f"{each['job']} {queued[each['job']]}" for each in slurm.jobs(folder)
                if step in each["steps"] and each["job"] in queued and not done]
        if "job" in times:
            jobs.insert(0, str(times["job"]))
        rows.append({
            "step": step, "state": "done" if done else "begun" if times else "waiting",
            "started": datetime.fromtimestamp(times["started"], UTC).isoformat(timespec="seconds")
            if times else None,
            "seconds": round(times["ended"] - times["started"], 3) if done else None,
            "attempts": times.get("attempts"), "jobs": ", ".join(jobs)})
    return rows


@main.command("point")
@profile_option
@click.argument("file")
@click.option("--name", default=None, help="Of the link. [default: latest-IMAGE.sqsh]")
@command_errors
def point_to(profile: Profile, file: str, name: str | None) -> None:
    """Let the link `latest-…` in the published folder lead to FILE there, by name or path.

    Jobs that must run one image name that image; the link is for people.

    \b
    Example:
      tools/release point apertus-image-0.25.1-0123456789ab-ba9876543210.sqsh
    """
    name = name or f"latest-{profile.image}.sqsh"
    point(profile.publish, name, file)
    click.echo(profile.publish / name)


if __name__ == "__main__":
    main(prog_name="tools/release")
