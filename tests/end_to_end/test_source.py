"""A user's own code in the smoke image: one layer, the same from any checkout (case 32)."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from apertus_image.build.run import build
from apertus_image.release.source import tree_of
from support import images
from support.checkout import clean_clone
from support.checkouts import cloned, commit, git, nested, repository

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]
SYSTEM = "x86_64-linux"


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory):
    """Two checkouts of one commit, the second full of what is ignored."""
    folder = tmp_path_factory.mktemp("code")
    outer = nested(folder)
    one, two = cloned(outer, folder / "one"), cloned(outer, folder / "far/away/two")
    (two / "build").mkdir()
    (two / "build/out.o").write_text("ignored")
    (two / "mod/x.log").write_text("ignored")
    return one, two


def override(checkout: Path, *at: str) -> tuple[str, ...]:
    return tree_of(checkout, *at).override()


def image(arguments: tuple[str, ...], by: str = "emitter") -> Path:
    maker = images.maker(by)
    maker = replace(maker, arguments=(*maker.arguments, *arguments))
    return build(images.PROJECT, "smoke-image", images.STORE, maker, link=None)


def derivation(project: Path, attribute: str, *arguments: str) -> str:
    result = images.nix("path-info", "--derivation", f"{project}#{attribute}", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_an_empty_input_changes_no_derivation(tmp_path, checkouts):
    """Against a flake that knows no such input."""
    clone = clean_clone(tmp_path / "clone")
    flake = (clone / "flake.nix").read_text()
    start, end = flake.index("  inputs.source ="), flake.index("  outputs =")
    flake = flake[:start] + flake[end:]
    flake = flake.replace(", source }:", " }:").replace(
        "application = if source.outPath == self.outPath then null else source;",
        "application = null;")
    assert "source." not in flake
    (clone / "flake.nix").write_text(flake)
    lock = json.loads((clone / "flake.lock").read_text())
    del lock["nodes"]["root"]["inputs"]["source"]
    (clone / "flake.lock").write_text(json.dumps(lock))
    names = ["smoke-image", "apertus-image-aarch64", "inputs-smoke-image",
             f"checks.{SYSTEM}.smoke-image-lint"]
    for name in names:
        assert derivation(clone, name) == derivation(images.PROJECT, name)
    code = override(checkouts[0])
    for name in names:  # the control
        assert derivation(images.PROJECT, name, *code) != derivation(images.PROJECT, name)


def test_two_checkouts_of_one_commit_are_one_image(checkouts):
    one, two = (image(override(checkout)) for checkout in checkouts)
    assert one == two


def test_the_code_is_the_top_layer_and_the_others_stay(checkouts):
    plain, mine = images.digests(images.built("smoke-image")), images.digests(
        image(override(checkouts[0])))
    # The content identity moves to the top, from the layer of patches.
    assert mine[:-2] == plain[:-1] and len(mine) == len(plain) + 1
    configs = [json.loads(Path(each).read_text())["image-config"]
               for each in (images.built("smoke-image"), image(override(checkouts[0])))]
    assert configs[0] == configs[1]


def test_both_makers_write_the_same_file(checkouts):
    code = override(checkouts[0])
    assert image(code).read_bytes() == image(code, "nix2container").read_bytes()


def test_an_edit_moves_this_layer_alone(checkouts, tmp_path):
    edited = cloned(checkouts[0], tmp_path / "edited")
    (edited / "a.py").write_text("a = 2\n")
    commit(edited)
    before, after = (images.digests(image(override(each))) for each in (checkouts[0], edited))
    assert before[:-1] == after[:-1] and before[-1] != after[-1]


def test_it_lies_at_its_place_and_runs(checkouts, tmp_path):
    root = tmp_path / "root"
    loaded = images.unpack(image(override(checkouts[1], "/srv/app")), root)
    code = root / "srv/app"
    assert {str(file.relative_to(code)) for file in code.rglob("*") if not file.is_dir()} == {
        ".gitignore", ".gitmodules", "a.py", "bin/run", "link", "mod/.gitignore",
        "mod/.gitmodules", "mod/i.py", "mod/deep/d.py"}
    assert not (root / "opt/nemo-rl").exists()
    manifest = root / "usr/share/apertus/manifests/application-source"
    assert '"/srv/app/mod/deep/d.py"' in manifest.read_text()
    plain = images.unpack(images.built("smoke-image"), tmp_path / "plain")
    assert plain.config == loaded.config
    content = [(folder / "usr/share/apertus/content-id").read_text()
               for folder in (root, tmp_path / "plain")]
    assert content[0] != content[1]
    result = images.run_inside(root, loaded, "python", "-c",
                               "import sys; sys.path.insert(0, '/srv/app'); import a; print(a.a)")
    assert result.stdout == "1\n", result.stderr


def test_the_lint_looks_at_it(checkouts, tmp_path):
    lint = f"{images.PROJECT}#checks.{SYSTEM}.smoke-image-lint"
    result = images.nix("build", "--no-link", lint, *override(checkouts[0]))
    assert result.returncode == 0, result.stderr
    bad = repository(tmp_path / "bad", {"stale.pyc": "not bytecode", "x": "/nix/store/abc"})
    result = images.nix("build", "--no-link", lint, "--option", "log-lines", "60", *override(bad))
    assert result.returncode != 0
    assert "/opt/nemo-rl/stale.pyc" in result.stderr and "/opt/nemo-rl/x" in result.stderr


def test_a_path_that_the_image_has_is_refused(tmp_path):
    code = repository(tmp_path / "code", {"bin/bash": "mine", "fine": "x"})
    result = images.nix("build", "--no-link", f"{images.PROJECT}#smoke-image", *override(
        code, "/usr"), "--option", "log-lines", "60")
    assert result.returncode != 0
    assert "two trees bring the same path" in result.stderr
    assert "/usr/bin/bash" in result.stderr and "in layer source" in result.stderr


def test_a_bare_input_that_a_site_pins_gives_the_same_layer(tmp_path):
    code = repository(tmp_path / "code", {"a.py": "a = 1\n", "l": "-> a.py", "bin/x": "#!"})
    clone = clean_clone(tmp_path / "clone")
    flake = (clone / "flake.nix").read_text()
    assert 'follows = "";' in flake
    url = f"git+file://{code}?rev={git(code, 'rev-parse', 'HEAD')}"
    (clone / "flake.nix").write_text(flake.replace('follows = "";', f'url = "{url}";'))
    result = images.nix("build", "--no-link", "--json", f"{clone}#smoke-image")
    assert result.returncode == 0, result.stderr
    pinned = Path(json.loads(result.stdout)[0]["outputs"]["out"])
    assert images.digests(pinned) == images.digests(image(override(code)))


def tool(*arguments):
    return subprocess.run(
        [images.PROJECT / "tools/build", "smoke-image", "--maker", "emitter", *arguments],
        capture_output=True, text=True)


def test_the_command_gates_builds_and_leaves_the_lock(checkouts, tmp_path):
    lock = (images.PROJECT / "flake.lock").read_bytes()
    link = ["--out-link", tmp_path / "link"]
    result = tool("--source", checkouts[1], "--source-at", "/srv/app", "--json", *link)
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["image"] == str(image(override(checkouts[0], "/srv/app")))
    assert said["source"]["commit"] == git(checkouts[0], "rev-parse", "HEAD")
    assert set(said["source"]["submodules"]) == {"mod", "mod/deep"}
    assert (images.PROJECT / "flake.lock").read_bytes() == lock

    dirty = cloned(checkouts[0], tmp_path / "dirty")
    (dirty / "new.py").write_text("new")
    (dirty / "mod/i.py").write_text("other")
    result = tool("--source", dirty, *link)
    assert result.returncode == 1 and result.stdout == ""
    assert "2 findings" in result.stderr and "new.py" in result.stderr
    assert "mod/i.py" in result.stderr and "Traceback" not in result.stderr
    result = tool("--source", dirty, "--source-at", "/srv/app", "--allow-dirty", *link)
    assert result.stdout.strip() == said["image"] and "warning: the checkout" in result.stderr
