"""tools/compat: whether an image can run a checkout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from packaging.utils import canonicalize_name

from apertus_image.audit.compat import OVERLAY, REBUILD, REUSABLE, VERDICTS, Environment, judged
from apertus_image.audit.installed import Installed, of_export, of_image
from apertus_image.audit.project import Project
from apertus_image.build.maker import choose
from apertus_image.build.run import root
from apertus_image.commands.images import located
from apertus_image.commands.project import PROJECT, maker_option, setup_option, store_option
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.record.beside import Beside
from apertus_image.store.store import Store
from apertus_image.ui.errors import command_errors

__all__ = ["main"]

COLOURS = {REUSABLE: "green", OVERLAY: "yellow", REBUILD: "red"}


@click.command()
@click.argument("checkout", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--image", default=str(PROJECT / "result"), metavar="FILE",
              help="A .sqsh, a release's .record.json beside one, or an image JSON.  "
              "[default: result]")
@click.option("--extra", "extras", metavar="NAME", multiple=True,
              help="One environment with these extras.  [default: the base, and each extra]")
@click.option("--no-extra", is_flag=True, help="The base alone.")
@click.option("--group", "groups", metavar="NAME", multiple=True,
              help="With these dependency groups, which are otherwise left out.")
@click.option("--json", "as_json", is_flag=True, help="Print every dependency as JSON.")
@maker_option
@store_option
@setup_option
@command_errors
def main(checkout: Path, image: str, extras: tuple[str, ...], no_extra: bool,
         groups: tuple[str, ...], as_json: bool, wanted: str, store: Store) -> None:
    """Say whether an image can run CHECKOUT, for each of its environments.

    \b
    Exit code, of the environment that needs most:
       0  reusable: the image has all that uv.lock (else pyproject.toml) asks for
      10  overlay: only pure Python packages or the application's own files differ
      20  rebuild: something compiled, of CUDA, PyTorch or vLLM, or Python itself differs
       1  an error

    \b
    Example:
      tools/compat ~/nemo-rl --image apertus-image-0.25.1-0123456789ab.sqsh --extra vllm
    """
    if extras and no_extra:
        raise UserError("--extra and --no-extra contradict each other", next_step="give one")
    project = Project.read(checkout)
    installed = _installed(image, store, wanted)
    asked = [tuple(canonicalize_name(each) for each in extras)]
    if not extras and not no_extra:
        asked += [(each,) for each in project.extras]
    found = [judged(project, installed, each, [canonicalize_name(one) for one in groups])
             for each in asked]
    verdict = max(each.verdict for each in found)
    if as_json:
        click.echo(json.dumps(_json(project, installed, found, verdict), indent=1))
    else:
        click.echo("\n".join(_lines(project, found)))
    sys.exit(verdict)


def _installed(image: str, store: Store, wanted: str) -> Installed:
    file = Path(image)
    if image.endswith(".record.json") and (beside := Beside.of(file)):
        file = beside.sqsh
    if file.suffix == ".sqsh":
        if not file.is_file():
            raise UserError("no such export", where=file, expected="a .sqsh",
                            next_step="tools/export-sqsh")
        tools = root(PROJECT, "toolchain", store, choose(PROJECT, store, wanted))
        return of_export(file, store.physical(str(tools)) / "bin")
    at = located(image, store)
    if not isinstance(at, Image):
        raise UserError("an OCI layout is not looked into", where=image,
                        expected="a .sqsh, or an image JSON", next_step="tools/export-sqsh first")
    return of_image(at, store.physical)


def _json(project: Project, image: Installed, found: list[Environment], verdict: int
          ) -> dict[str, Any]:
    return {
        "schema": "apertus-image/compat/1", "verdict": VERDICTS[verdict], "project": project.name,
        "by": "uv.lock" if project.lock else "pyproject.toml",
        "image": {"python": image.python, "machine": image.machine.name, "prefix": image.prefix,
                  "packages": len(image.packages)},
        "submodules": [vars(each) for each in project.submodules],
        "environments": [each.json() for each in found]}


def _lines(project: Project, found: list[Environment]) -> Iterator[str]:
    for submodule in project.submodules:
        standing = "checked out" if submodule.there else "not checked out"
        yield f"submodule {submodule.path}: {standing}"
    for each in found:
        met = sum(reason.verdict == REUSABLE for reason in each.reasons)
        colour = COLOURS[each.verdict]
        yield (f"{click.style(VERDICTS[each.verdict], fg=colour)}: {each.name} "
               f"({met} of {len(each.reasons)} needs are met)")
        for reason in sorted(each.reasons, key=lambda one: (-one.verdict, one.what)):
            if reason.verdict != REUSABLE:
                yield f"  {VERDICTS[reason.verdict]}: {reason.what}, {reason.why}"
                yield f"    wanted: {reason.wanted}"
                yield f"    image:  {reason.has or '-'}" + (
                    f" ({reason.kind})" if reason.kind else "")


if __name__ == "__main__":
    main(prog_name="tools/compat")
