"""Environments read from locks that uv writes, against uv's own export of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from apertus_image.audit.installed import Installed
from apertus_image.audit.project import Project
from apertus_image.tree.machine import MACHINES
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support import images, wheels

UV = images.PROJECT / ".venv/bin/uv"
pytestmark = pytest.mark.skipif(not UV.exists(), reason="not run: uv is not in .venv")
PYPROJECT = """\
[project]
name = "app"
version = "1"
requires-python = ">=3.11"
dependencies = ["one[more]", "win; sys_platform == 'win32'", "part",
                "arm; platform_machine == 'aarch64'"]

[project.optional-dependencies]
fast = ["fork>=2", "app[both]"]
slow = ["fork<2", "app[both]"]
both = ["shared"]

[dependency-groups]
dev = ["tool", { include-group = "docs" }]
docs = ["writer"]

[tool.uv]
conflicts = [[{ extra = "fast" }, { extra = "slow" }]]

[tool.uv.sources]
part = { path = "part", editable = true }
"""
# name -> versions and what each says beside name and version
WHEELS = {
    "one": {"1.0": "Provides-Extra: more\nRequires-Dist: two; extra == 'more'\n"
                   "Requires-Dist: never; extra == 'other'\n"},
    "two": {"1.0": "Requires-Dist: new; python_full_version >= '3.13'\n"},
    "new": {"1.0": ""}, "never": {"1.0": ""}, "win": {"1.0": ""}, "arm": {"1.0": ""},
    "fork": {"1.5": "Requires-Dist: old\n", "2.5": ""}, "old": {"1.0": ""}, "shared": {"1.0": ""},
    "tool": {"1.0": ""}, "writer": {"1.0": ""}, "deep": {"1.0": ""},
}


def uv(folder: Path, *arguments: str) -> str:
    ran = subprocess.run([UV, *arguments, "--offline"], cwd=folder, capture_output=True, text=True,
                         env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C",
                              "UV_CACHE_DIR": str(folder / ".uv"), "UV_PYTHON_DOWNLOADS": "never"})
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locked")
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "part").mkdir()
    (folder / "part/pyproject.toml").write_text(
        '[project]\nname = "part"\nversion = "2"\ndependencies = ["deep"]\n')
    for name, versions in WHEELS.items():
        for version, metadata in versions.items():
            wheels.make(folder / "wheels", name, {f"{name}.py": ""}, version=version,
                        metadata=metadata)
    uv(folder, "lock", "--quiet", "--no-index", "--find-links", str(folder / "wheels"))
    return Project.read(folder)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("extras", "groups"), [
    ((), ()), (("fast",), ()), (("slow",), ()), (("both",), ()), ((), ("dev",)),
    (("slow",), ("docs",))])
def test_an_environment_is_what_uv_would_install(project, machine, extras, groups):
    markers = Installed("3.13.5", MACHINES[machine], "/opt/apertus").markers()
    asked = [word for extra in extras for word in ("--extra", extra)]
    asked += [word for group in groups for word in ("--group", group)]
    said = uv(project.folder, "export", "--quiet", "--frozen", "--no-hashes", "--no-annotate",
              "--no-header", "--no-emit-project", "--no-default-groups", *asked)
    theirs = set()
    for line in said.splitlines():
        if line.startswith("-e"):
            theirs.add("part 2")
            continue
        requirement = Requirement(line)
        if not requirement.marker or requirement.marker.evaluate(markers):
            version = next(iter(requirement.specifier)).version
            theirs.add(f"{canonicalize_name(requirement.name)} {version}")
    assert {f"{each.name} {each.version}"
            for each in project.wanted(extras, groups, markers)} == theirs


def test_a_lock_that_uv_wrote_is_not_stale_and_becomes_so(project, tmp_path):
    for name in ("pyproject.toml", "uv.lock"):
        (tmp_path / name).write_text((project.folder / name).read_text())
    assert Project.read(tmp_path).name == "app"
    text = (tmp_path / "pyproject.toml").read_text()
    for change in (text.replace('"fork<2"', '"fork<3"'), text.replace('"one[more]"', '"three"')):
        (tmp_path / "pyproject.toml").write_text(change)
        with pytest.raises(Exception, match=r"uv\.lock is older than pyproject\.toml"):
            Project.read(tmp_path)
