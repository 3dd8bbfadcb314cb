"""The environment's own files, and wheels in it, started with a true interpreter."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.lint.content import check_bytecode
from apertus_image.tree import manifest
from apertus_image.tree.view import View
from apertus_image.wheel.build import build as build_group
from apertus_image.wheel.environment import build
from support.wheels import PREFIX, PYTHON, SITE, content, make, spec

SYSTEM = Path(f"/usr/bin/python{PYTHON}")
needs_system = pytest.mark.skipif(not SYSTEM.exists(), reason=f"not run: there is no {SYSTEM}")
NESTED = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"


def environment(tmp_path, *pins, files=None):
    """The environment with these wheels, in one tree."""
    out = tmp_path / "out"
    build({"prefix": PREFIX, "python": PYTHON, "files": files or {}}, out, tmp_path / "m")
    if pins:
        build_group(spec(*pins), tmp_path / "group", tmp_path / "group.m")
        shutil.copytree(tmp_path / "group", out, dirs_exist_ok=True)
    return out


def run(out, *arguments):
    """What the environment's interpreter prints, started with nothing in its surroundings."""
    python = out / PREFIX[1:] / "bin/python"
    result = subprocess.run([python, *arguments], capture_output=True, text=True, check=True,
                            env={"PATH": "/usr/bin:/bin"})
    return result.stdout.strip()


def test_what_is_there(tmp_path):
    out = environment(tmp_path)
    found = content(out)
    assert found[f"{PREFIX}/bin/python"] == f"/usr/bin/python{PYTHON}"
    assert found[f"{PREFIX}/bin/python3"] == found[f"{PREFIX}/bin/python{PYTHON}"] == "python"
    assert b"home = /usr/bin\n" in found[f"{PREFIX}/pyvenv.cfg"][1]
    assert found[SITE] is None
    written = {e.path: e.content() for e in manifest.read(tmp_path / "m")}
    assert written == {e.path: e.content() for e in manifest.scan(out, "x")}


@needs_system
def test_site_packages_is_a_site_directory_of_a_virtual_environment(tmp_path):  # case 37
    out = environment(tmp_path)
    code = "import sys, site; print(sys.prefix != sys.base_prefix, *site.getsitepackages())"
    virtual, first, *others = run(out, "-c", code).split()
    assert (virtual, first) == ("True", f"{out}{SITE}")
    # Debian's Python adds dist-packages, but of the environment's prefix.
    assert all(folder.startswith(f"{out}{PREFIX}/") for folder in others)
    # Nothing of the system's own packages gets in.
    paths = run(out, "-c", "import sys; print(*sys.path, sep='\\n')").splitlines()
    assert f"{out}{SITE}" in paths
    assert not [path for path in paths if "dist-packages" in path]


@needs_system
@pytest.mark.parametrize("how", [["-c"], ["-c", NESTED]], ids=["itself", "nested"])
def test_path_configuration_files_work(tmp_path, how):  # case 37
    pin = make(tmp_path, "hook", {"hook.pth": "import hook_code\n",
                                  "hook_code.py": "import sys\nsys.marker = 'set'\n"})
    out = environment(tmp_path, pin)
    code = "import sys; print(getattr(sys, 'marker', 'not set'))"
    assert run(out, *how, code) == "set"


@needs_system
def test_the_control_a_path_from_the_surroundings_leaves_them_out(tmp_path):  # case 37
    pin = make(tmp_path, "hook", {"hook.pth": "import hook_code\n",
                                  "hook_code.py": "import sys\nsys.marker = 'set'\n"})
    out = environment(tmp_path, pin)
    result = subprocess.run([SYSTEM, "-c", "import sys; print(getattr(sys, 'marker', 'not set'))"],
                            capture_output=True, text=True, check=True,
                            env={"PYTHONPATH": f"{out}{SITE}"})
    assert result.stdout.strip() == "not set"


@needs_system
def test_added_files_run_and_have_bytecode(tmp_path):
    out = environment(tmp_path, files={"added.py": "value = 7\n", "added.pth": "import added\n"})
    code = "import sys; print(sys.modules['added'].value, sys.modules['added'].__cached__)"
    value, cached = run(out, "-B", "-c", code).split()
    assert value == "7"
    path = cached.removeprefix(str(out))
    assert list(check_bytecode(View([out]), path, Path(cached))) == []


@needs_system
def test_a_wheels_script_runs_with_its_package(tmp_path):  # case 36
    pin = make(tmp_path, "pkg", {"pkg.py": "def main(): print('ran')\n"},
               entry_points="[console_scripts]\nlaunch = pkg:main\n")
    out = environment(tmp_path, pin)
    script = (out / PREFIX[1:] / "bin/launch").read_text()
    assert script.startswith(f"#!{PREFIX}/bin/python\n")
    assert run(out, "-c", script) == "ran"
