"""A folder's file system by the table of mounts; striping by a played lfs."""

import json

import pytest
from apertus_image.place.lustre import LAYOUT, filesystem, stripe

MOUNTS = r"""22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:30 / /scratch rw - lustre 10.0.0.1@tcp:/scr rw,flock
31 22 0:31 / /scratch/local\040disk rw shared:2 master:3 - xfs /dev/sdb rw
32 22 0:32 / /over rw - tmpfs tmpfs rw
33 32 0:33 / /over rw - fuse.squashfuse_ll x\040y rw
34 22 0:34 / /back\134slash rw - nfs4 host:/x rw
a broken line
"""

# What `lfs getstripe -d` says, cut down to what tells layouts apart.
PLAIN = "stripe_count:  1 stripe_size:   1048576 pattern:  raid0 stripe_offset: -1\n"


def composite(*counts):
    return f"  lcm_mirror_count:  1\n  lcm_entry_count:   {len(counts)}\n" + "".join(
        f"    lcme_extent.e_end:   EOF\n      stripe_count:  {count}       "
        "stripe_size:   4194304\n" for count in counts)


@pytest.mark.parametrize(("path", "kind"), [
    ("/scratch", "lustre"), ("/scratch/me/new", "lustre"), ("/scratches", "ext4"),
    ("/scratch/local disk/x", "xfs"), ("/scratch/local", "lustre"),
    ("/over/x", "fuse.squashfuse_ll"),
    ("/back\\slash", "nfs4"), ("/etc", "ext4"),
])
def test_the_longest_mount_point_counts(path, kind):
    assert filesystem(path, MOUNTS) == kind


def test_no_table_is_no_type():
    assert filesystem("/", "") is None


def test_this_machine_has_a_file_system():
    assert filesystem("/proc/self") == "proc"


@pytest.fixture
def lfs(tmp_path, monkeypatch):
    """A program lfs that notes what it is called with; returns what sets its replies."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def play(getstripe=PLAIN, status=0):
        (folder / "lfs").write_text(
            "#!/usr/bin/env python3\nimport json, sys\n"
            f"open({str(tmp_path / 'calls')!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
            f"if sys.argv[1] == 'getstripe': print({getstripe!r})\n"
            f"elif {status}: sys.exit('error: setstripe: Operation not supported')\n")
        (folder / "lfs").chmod(0o755)

    play()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return play


def calls(tmp_path):
    file = tmp_path / "calls"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def lustre(folder):
    return f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / {folder} rw - lustre x rw\n"


def test_lustre_gets_the_guides_layout(tmp_path, lfs):
    assert stripe(tmp_path, lustre(tmp_path)).done == "set"
    assert calls(tmp_path)[-1] == ["setstripe", *LAYOUT, str(tmp_path)]
    assert " ".join(LAYOUT) == "-E 4M -c 1 -E 64M -c 4 -E -1 -c -1 -S 4M"


@pytest.mark.parametrize(("counts", "done"), [
    ((1, 4, -1), "kept"), ((1, 4, 32), "kept"), ((1, 4), "set"), ((4,), "set"),
])
def test_a_progressive_layout_is_kept(tmp_path, lfs, counts, done):
    lfs(getstripe=composite(*counts))
    assert stripe(tmp_path, lustre(tmp_path)).done == done
    assert [call[0] for call in calls(tmp_path)] == ["getstripe", "setstripe"][:1 + (done == "set")]


def test_a_failure_is_a_warning(tmp_path, lfs):
    lfs(status=1)
    result = stripe(tmp_path, lustre(tmp_path))
    assert result.done == "failed"
    assert str(tmp_path) in result.warning and "Operation not supported" in result.warning


def test_elsewhere_and_without_lfs_nothing_is_done(tmp_path, lfs, monkeypatch):
    assert stripe(tmp_path, "1 0 0:1 / / rw - ext4 x rw\n").done == "none"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert stripe(tmp_path, lustre(tmp_path)).done == "none"
    assert not calls(tmp_path)
