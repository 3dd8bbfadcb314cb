"""Compile caches per user and image, set in every interpreter of an environment (trap 17)."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tempfile
import venv
from pathlib import Path

import pytest

MODULE = Path(__file__).parents[2] / "nix/python/apertus_cache.py"
NAMES = re.findall(r'^    "([A-Z_]+)": "', MODULE.read_text(), re.MULTILINE)
MARK = "APERTUS_CACHE_IN_USE"
SYSTEM = Path("/usr/bin/python3")
SHOW = "import json, os; print(json.dumps(dict(os.environ)))"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not run: needs root, to be two users")


class Image:
    """An environment with the module, and the identity of its image's content."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.identity = identity[:16]
        venv.create(folder / "env", symlinks=True)
        site, = (folder / "env/lib").glob("python3*/site-packages")
        (folder / "content-id").write_text(identity + "\n")
        text = MODULE.read_text()
        assert text.count('"/usr/share/apertus/content-id"') == 1
        (site / "apertus_cache.py").write_text(
            text.replace('"/usr/share/apertus/content-id"', repr(str(folder / "content-id"))))
        (site / "apertus_cache.pth").write_text("import apertus_cache\n")
        self.python = str(folder / "env/bin/python")

    def start(self, env: dict[str, str], *command: str, **options) -> dict[str, str]:
        """What an interpreter sees in its environment."""
        result = subprocess.run(list(command) or [self.python, "-c", SHOW], env=env, text=True,
                                capture_output=True, check=True, **options)
        assert result.stderr == ""
        return json.loads(result.stdout)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return [Image(tmp_path_factory.mktemp("image"), name * 64) for name in "ab"]


@pytest.fixture
def image(images):
    return images[0]


@pytest.fixture
def base(tmp_path):
    (tmp_path / "base").mkdir()
    return tmp_path / "base"


def found(env: dict[str, str]) -> dict[str, str]:
    return {name: env[name] for name in NAMES if name in env}


def the_folder(env: dict[str, str]) -> Path:
    """The one folder that all variables lead below."""
    assert sorted(found(env)) == sorted(NAMES)
    folder, = {str(Path(path).parent) for path in found(env).values()}
    assert len(set(found(env).values())) == len(NAMES) and env[MARK] == folder
    return Path(folder)


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077])
def test_folders_are_the_users_and_the_images(image, base, umask):
    folder = the_folder(image.start({"TMPDIR": str(base)}, umask=umask))
    assert folder == base / f"apertus-{os.geteuid()}" / image.identity
    for each in (folder, folder.parent):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700


def test_every_way_to_start_an_interpreter_comes_to_one_folder(image, base):
    env = {"TMPDIR": str(base), "PATH": os.environ["PATH"]}
    ways = [
        [image.python, "-c", SHOW], [image.python, "-I", "-c", SHOW],
        ["sh", "-lc", f"{image.python} -c '{SHOW}'"],
        # A child that is given nothing, as a daemon's may be.
        [image.python, "-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', "
                             f"{SHOW!r}], env={{'TMPDIR': {str(base)!r}}})"],
        [image.python, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', "
                             f"{SHOW!r}])"],
    ]
    assert len({the_folder(image.start(env, *way)) for way in ways}) == 1


def test_what_the_user_set_stays(image, base):
    env = image.start({"TMPDIR": str(base), "TRITON_CACHE_DIR": "/mine"})
    assert env["TRITON_CACHE_DIR"] == "/mine"
    assert env["VLLM_CACHE_ROOT"] == f"{env[MARK]}/vllm"
    again = image.start(env)
    assert again == env


def test_nothing_is_made_where_the_user_set_everything(image, base):
    env = image.start({"TMPDIR": str(base), **dict.fromkeys(NAMES, "/mine")})
    assert set(found(env).values()) == {"/mine"} and MARK not in env
    assert list(base.iterdir()) == []


def test_another_image_does_not_inherit(images, base):
    first = images[0].start({"TMPDIR": str(base), "TRITON_CACHE_DIR": "/mine"})
    second = images[1].start(first)
    assert second["TRITON_CACHE_DIR"] == "/mine"
    assert second["VLLM_CACHE_ROOT"] == str(
        base / f"apertus-{os.geteuid()}" / images[1].identity / "vllm")
    assert not any(images[0].identity in value for value in found(second).values())


def test_another_node_does_not_inherit(image, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    first = image.start({"SLURM_TMPDIR": str(tmp_path / "here")})
    moved = {**first, "SLURM_TMPDIR": str(tmp_path / "there")}
    assert the_folder(image.start(moved)).is_relative_to(tmp_path / "there")
    # And the same name on a node where nothing has been made yet.
    (tmp_path / "here" / f"apertus-{os.geteuid()}").rename(tmp_path / "gone")
    assert the_folder(image.start(first)).is_dir()


def test_the_order_of_places(image, tmp_path):
    places = {}
    for name in ("TMPDIR", "SLURM_TMPDIR"):
        (tmp_path / name).mkdir()
        places[name] = str(tmp_path / name)
        assert the_folder(image.start(places)).is_relative_to(places[name])
    places["SLURM_TMPDIR"] = str(tmp_path / "missing")
    assert the_folder(image.start(places)).is_relative_to(places["TMPDIR"])
    assert not (tmp_path / "missing").exists()
    places["APERTUS_CACHE_DIR"] = str(tmp_path / "wanted/below")
    assert the_folder(image.start(places)).is_relative_to(tmp_path / "wanted/below")
    (tmp_path / "file").write_text("")
    places["APERTUS_CACHE_DIR"] = str(tmp_path / "file")
    assert the_folder(image.start(places)).is_relative_to(places["TMPDIR"])


HOSTILE = {
    "open to others": lambda path, base: (path.mkdir(), path.chmod(0o777)),
    "a link": lambda path, base: ((base / "elsewhere").mkdir(mode=0o700),
                                  path.symlink_to("elsewhere")),
    "a file": lambda path, base: path.write_text(""),
    "another's": lambda path, base: (path.mkdir(mode=0o700), os.chown(path, 65534, 65534)),
}


@pytest.mark.parametrize("what", [
    pytest.param(name, marks=needs_root if name == "another's" else []) for name in HOSTILE])
def test_a_folder_that_may_be_anothers_is_not_used(image, base, what):
    planted = base / f"apertus-{os.geteuid()}"
    HOSTILE[what](planted, base)
    env = image.start({"TMPDIR": str(base)})
    folder = the_folder(env)
    assert folder.parent != planted and folder.is_relative_to(base)
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    # One fresh folder, not one for each child.
    assert the_folder(image.start(env)) == folder
    # What the environment says is looked at too.
    folder.chmod(0o755)
    assert the_folder(image.start(env)).parent != folder.parent


@needs_root
@pytest.mark.skipif(not SYSTEM.exists(), reason="not run: no Python that every user may start")
def test_users_have_folders_of_their_own(image):
    with tempfile.TemporaryDirectory(dir="/tmp") as public:
        base = Path(public)
        base.chmod(0o1777)
        (base / "content-id").write_text(image.identity)
        root = image.start({"TMPDIR": public})
        text = MODULE.read_text().replace("/usr/share/apertus/content-id", f"{public}/content-id")
        other = image.start(root, str(SYSTEM), "-S", "-", input=f"{text}\n{SHOW}",
                            user=65534, group=65534, extra_groups=[], cwd="/")
        folder = the_folder(other)
        assert folder == base / "apertus-65534" / image.identity
        assert folder.stat().st_uid == folder.parent.stat().st_uid == 65534


def test_an_interpreter_starts_without_an_identity(tmp_path, base):
    image = Image(tmp_path / "image", "c")
    first = image.start({"TMPDIR": str(base)})
    (tmp_path / "image/content-id").unlink()
    # Not even with what another image set.
    for given in ({"TMPDIR": str(base)}, first):
        env = image.start(given)
        assert found(env) == {} and MARK not in env
    (tmp_path / "image/content-id").write_bytes(b"\xff\xfe\x00")
    assert found(image.start({"TMPDIR": str(base), "PYTHONUTF8": "1"})) == {}


def test_it_imports_next_to_nothing(image, base):  # it runs in every interpreter
    show = "import sys, json; print(json.dumps(dict.fromkeys(sys.modules, '')))"
    loaded = image.start({"TMPDIR": str(base)}, image.python, "-c", show)
    assert "apertus_cache" in loaded and "tempfile" not in loaded and "subprocess" not in loaded
