"""Layers: canonical headers, whole files, one digest whatever the surroundings."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import subprocess
import sys
import tarfile

import pytest
from apertus_image.errors import UserError
from apertus_image.oci.layer import digest, stream
from apertus_image.oci.merge import Entry
from apertus_image.oci.paths import LayerPath, Perm
from apertus_image.oci.tar import header
from support import trees


def at_root(path, *perms):
    return LayerPath(str(path), (f"^{path}", ""), perms)


def tar_of(path, target, *perms):
    with target.open("wb") as out:
        for chunk in stream([at_root(path, *perms)]):
            out.write(chunk)
    return target


def test_the_recorded_vector(tmp_path):
    tree = trees.make(tmp_path / "v", trees.VECTOR)
    assert digest([at_root(tree)]) == (
        "sha256:0a8b4b209d0cfe677eab3c6c0b0612dd4b3c5246b1e7300b7df379fed6401bab", 21504)


def test_the_stream_is_what_the_digest_is_of(tmp_path):
    tree = trees.make(tmp_path / "t", trees.ODD)
    data = b"".join(stream([at_root(tree)]))
    assert digest([at_root(tree)]) == (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))


def test_order_of_making_and_umask_do_not_matter(tmp_path):
    forth = digest([at_root(trees.make(tmp_path / "a", trees.ODD))])
    old = os.umask(0o077)
    try:
        back = digest([at_root(trees.make(tmp_path / "b", trees.ODD, backwards=True))])
    finally:
        os.umask(old)
    assert forth == back


def test_a_links_reported_mode_does_not_matter(tmp_path, monkeypatch):  # case 1
    tree = trees.make(tmp_path / "t", {"f": "x", "link": "-> f"})
    plain = digest([at_root(tree)])
    real = os.DirEntry.stat

    class Odd:
        """A directory entry of a host that reports 0755 for links."""

        def __init__(self, entry):
            self._entry = entry
            self.name, self.path = entry.name, entry.path
            self.is_dir = entry.is_dir

        def stat(self, *, follow_symlinks=True):
            found = real(self._entry, follow_symlinks=follow_symlinks)
            if not self._entry.is_symlink():
                return found
            return os.stat_result((0o120755, *found[1:]))

    scan = os.scandir

    class Scan:
        def __init__(self, folder):
            self._scan = scan(folder)

        def __enter__(self):
            return map(Odd, self._scan)

        def __exit__(self, *_):
            self._scan.close()

    monkeypatch.setattr(os, "scandir", Scan)
    assert digest([at_root(tree)]) == plain


MANY = [trees.ODD, *(trees.chance(seed, 40) for seed in range(100, 108))]


@pytest.mark.parametrize("description", MANY, ids=range(len(MANY)))
def test_other_tools_read_what_was_written(tmp_path, description):  # case 11
    tree = trees.make(tmp_path / "t", description)
    tar = tar_of(tree, tmp_path / "layer.tar")
    with tarfile.open(tar) as archive:
        members = {m.name: m for m in archive}
    assert len(members) == 1 + sum(1 for _ in tree.rglob("*"))
    for path in tree.rglob("*"):
        found = members["/" + str(path.relative_to(tree))]
        assert (found.issym(), found.isdir()) == (path.is_symlink(),
                                                  path.is_dir() and not path.is_symlink())
        if path.is_symlink():
            assert found.linkname == os.readlink(path)
        elif path.is_file():
            assert found.size == path.stat().st_size
            assert found.mode == stat.S_IMODE(path.stat().st_mode)
        assert (found.uid, found.gid, found.uname, found.mtime) == (0, 0, "root", 1)


@pytest.mark.parametrize("description", MANY, ids=range(len(MANY)))
def test_extracting_gives_the_tree_back(tmp_path, description):  # case 11, as Enroot calls tar
    tree = trees.make(tmp_path / "t", description)
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["tar", "-C", out, "--warning=no-timestamp", "--anchored",
                    "--exclude=dev/*", "--exclude=./dev/*", "-pxf",
                    tar_of(tree, tmp_path / "layer.tar")], check=True, capture_output=True)
    names = {path.relative_to(tree) for path in tree.rglob("*")}
    assert {path.relative_to(out) for path in out.rglob("*")} == names
    for path in tree.rglob("*"):
        other = out / path.relative_to(tree)
        assert other.is_symlink() == path.is_symlink()
        if path.is_symlink():
            assert os.readlink(other) == os.readlink(path)
            continue
        assert other.stat().st_mode == path.stat().st_mode
        if path.is_file():
            assert other.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("size", [8**11 - 1, 8**11, 8 * 2**30 + 1, 2**40])
def test_other_tools_read_any_size(size):  # case 11
    name = "/" + "d" * 120 + "/é"
    start = header(Entry(name, "file", 0o644, size))
    with tarfile.open(fileobj=io.BytesIO(start)) as archive:
        member = archive.next()
    assert (member.name, member.size) == (name, size)
    # The contents are not there, of which tar complains after it has listed the name.
    listed = subprocess.run(["tar", "-tvf", "-", "--quoting-style=literal"], input=start,
                            capture_output=True, env=os.environ | {"LC_ALL": "C"})
    assert listed.stdout.split()[2] == str(size).encode()
    assert listed.stdout.endswith(name.encode() + b"\n")


def test_names_and_targets_of_every_length(tmp_path):
    description = {f"{'d' * d}/{'f' * f}": "x" for d in (1, 54, 154, 155) for f in (99, 100, 101)}
    description |= {f"links/{n}": "-> " + "t" * n for n in (99, 100, 101, 255)}
    tree = trees.make(tmp_path / "t", description)
    with tarfile.open(tar_of(tree, tmp_path / "x.tar")) as archive:
        names = {member.name.lstrip("/") for member in archive}
    assert set(description) <= names


def test_shared_folders_merge_and_rules_bind_only_what_they_match(tmp_path):  # case 3
    one = trees.make(tmp_path / "one", {"etc/a": "a"})
    two = trees.make(tmp_path / "two", {"etc/b": "b"})
    rule = Perm(regex=".*/a$", mode="0600")
    data = b"".join(stream([at_root(one, rule), at_root(two)]))
    (tmp_path / "x.tar").write_bytes(data)
    with tarfile.open(tmp_path / "x.tar") as archive:
        modes = {member.name.strip("/"): member.mode for member in archive}
    assert modes == {"": 0o755, "etc": 0o555, "etc/a": 0o600, "etc/b": 0o444}


@pytest.mark.parametrize(
    ("one", "two", "what"),
    [({"share/x": "1"}, {"share": "-> other"}, "type"), ({"f": "1"}, {"f": "22"}, "size"),
     ({"f": "1"}, {"f": ("1", True)}, "mode"), ({"f": "1"}, {"f/g": "1"}, "type")],
)
def test_conflicts_name_both_sources_and_a_remedy(tmp_path, one, two, what):  # case 3
    first, second = trees.make(tmp_path / "one", one), trees.make(tmp_path / "two", two)
    with pytest.raises(UserError) as error:
        list(stream([at_root(first), at_root(second)]))
    assert f"different {what}" in error.value.what
    assert str(first) in str(error.value) and str(second) in str(error.value)
    assert error.value.next_step


def test_a_file_that_shrinks_while_it_is_read(tmp_path):  # case 2
    tree = tmp_path / "t"
    tree.mkdir()
    (tree / "f").write_bytes(b"x" * 3_000_000)
    chunks = stream([at_root(tree)])
    next(chunks)
    os.truncate(tree / "f", 1_500_000)
    with pytest.raises(UserError, match="shorter"):
        list(chunks)


def test_a_store_path_that_is_gone(tmp_path):
    with pytest.raises(UserError, match="gone"):
        digest([at_root(tmp_path / "nothing")])


def test_a_store_below_another_root(tmp_path):  # trap 11
    trees.make(tmp_path / "root/nix/store/abc-x", {"etc/f": "x"})
    path = LayerPath("/nix/store/abc-x", ("^/nix/store/abc-x", ""))
    moved = digest([path], physical=lambda p: tmp_path / "root" / p.lstrip("/"))
    assert moved == digest([at_root(tmp_path / "root/nix/store/abc-x")])


def test_memory_does_not_grow_with_a_layer(tmp_path):  # case 11
    tree = tmp_path / "t"
    tree.mkdir()
    with (tree / "sparse").open("wb") as file:
        file.truncate(2**30)
    code = (
        "import sys; from apertus_image.oci.layer import digest\n"
        "from apertus_image.oci.paths import LayerPath\n"
        "import resource; before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "digest([LayerPath(sys.argv[1], ('^' + sys.argv[1], ''))])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    result = subprocess.run([sys.executable, "-c", code, tree], capture_output=True, text=True,
                            check=True, env=os.environ | {"PYTHONPATH": ":".join(sys.path)})
    assert int(result.stdout) < 64 * 1024  # KiB
