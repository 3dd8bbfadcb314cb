"""Locking wheels: the pinned uv against an index of our own."""

from __future__ import annotations

import hashlib
import json

import pytest
from apertus_image.errors import UserError
from apertus_image.fetch.index import JSON
from apertus_image.pins import lockfile
from apertus_image.resolve import wheels
from support import server

NATIVE = "cp313-cp313-manylinux_2_28_{}"


class Index:
    """Projects on a server, written as they are added; uv has a cache of its own."""

    def __init__(self, web, folder):
        self.web, self.files = web, {}
        self.url = f"{web.url}/{folder}"
        self.folder = folder

    def add(self, name, version, tag="py3-none-any", *, needs=(), when="2026-05-01T00:00:00Z",
            **more):
        file = f"{name.replace('-', '_')}-{version}-{tag}.whl"
        metadata = "".join([f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                            *(f"Requires-Dist: {need}\n" for need in needs)]).encode()
        path = f"/{self.folder}/files/{file.replace('+', '%2B')}"
        self._put(name, path, {
            "filename": file, "size": 1000 + len(file), "yanked": False,
            "hashes": {"sha256": hashlib.sha256(file.encode()).hexdigest()},
            "core-metadata": {"sha256": hashlib.sha256(metadata).hexdigest()},
        } | more, when)
        self.web.replies[f"{path}.metadata"] = [server.body(metadata)]
        return file

    def add_source(self, name, version):
        self._put(name, f"/{self.folder}/files/{name}-{version}.tar.gz", {
            "filename": f"{name}-{version}.tar.gz", "size": 9, "hashes": {"sha256": "0" * 64},
            "yanked": False}, "2026-05-01T00:00:00Z")

    def _put(self, name, path, entry, when):
        files = self.files.setdefault(name, [])
        files.append(entry | {"url": path, "upload-time": when})
        page = {"meta": {"api-version": "1.1"}, "name": name, "files": files}
        self.web.replies[f"/{self.folder}/{name}/"] = [server.body(json.dumps(page).encode(), JSON)]


@pytest.fixture
def web():
    with server.serve() as script:
        yield script


@pytest.fixture
def index(web, monkeypatch, tmp_path):
    made = Index(web, "simple")
    monkeypatch.setenv("APERTUS_PYPI_INDEX", made.url)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return made


def lock(folder, *lines):
    (folder / "requirements.in").write_text("\n".join(lines) + "\n")
    return wheels.resolve(folder)


def versions(made, machine="x86_64"):
    return {pin["name"]: pin["version"] for pin in made[machine]}


def test_a_lock_of_both_machines(index, tmp_path):
    pure = index.add("some-thing", "1.0", needs=["native>=1", "extra-thing; extra == 'x'",
                                                 "tomli; python_version < '3.11'"])
    for machine, version in (("x86_64", "1"), ("x86_64", "2+cu130"), ("aarch64", "1")):
        index.add("native", version, NATIVE.format(machine))
    made = lock(tmp_path, "some-thing  # why")
    lockfile.write(made, tmp_path / "wheels.json")
    assert lockfile.load(tmp_path / "wheels.json") == made

    assert versions(made) == {"native": "2+cu130", "some-thing": "1.0"}
    assert versions(made, "aarch64") == {"native": "1", "some-thing": "1.0"}
    assert made["differs"] == {"native": {"x86_64": "2+cu130", "aarch64": "1"}}
    native, thing = made["x86_64"]
    assert native["file"] == "native-2+cu130-cp313-cp313-manylinux_2_28_x86_64.whl"  # case 29
    assert thing == {
        "name": "some-thing", "version": "1.0", "file": pure, "size": 1000 + len(pure),
        "sha256": hashlib.sha256(pure.encode()).hexdigest(), "tags": ["py3-none-any"],
        "requires": ["native>=1", "tomli; python_version < '3.11'"]}


def test_the_same_twice_with_or_without_a_cache(index, tmp_path, monkeypatch):
    for version in ("1", "2", "3"):
        index.add("a", version, needs=["b"])
        index.add("b", version)
    first = lockfile.dumps(lock(tmp_path, "a", "b<3"))
    assert lockfile.dumps(lock(tmp_path, "a", "b<3")) == first
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "another"))
    assert lockfile.dumps(lock(tmp_path, "a", "b<3")) == first


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
def test_the_cut_off_day_ends_at_one_moment(index, tmp_path, monkeypatch, zone):  # trap 2
    index.add("a", "1", when="2026-07-15T00:30:00Z")
    index.add("a", "2", when="2026-07-15T23:30:00Z")
    index.add("a", "3", when="2026-07-16T00:30:00Z")
    monkeypatch.setenv("TZ", zone)
    assert versions(lock(tmp_path, "a")) == {"a": "2"}


def test_the_users_own_settings_of_uv_change_nothing(index, tmp_path, monkeypatch):
    index.add("a", "1")
    index.add("a", "2")
    index.add("a", "3rc1")
    (tmp_path / "constraints").write_text("a<2\n")
    (tmp_path / "uv.toml").write_text('[pip]\nprerelease = "allow"\n')
    monkeypatch.setenv("UV_CONSTRAINT", str(tmp_path / "constraints"))
    monkeypatch.setenv("UV_PRERELEASE", "allow")
    monkeypatch.setenv("UV_EXCLUDE_NEWER", "2020-01-01")
    monkeypatch.setenv("UV_CONFIG_FILE", str(tmp_path / "uv.toml"))
    assert versions(lock(tmp_path, "a")) == {"a": "2"}


def test_the_first_index_goes_before_the_second(index, web, tmp_path, monkeypatch):
    second = Index(web, "second")
    index.add("a", "1", needs=["b"])
    second.add("a", "2")
    second.add("b", "5")
    monkeypatch.setenv("APERTUS_PYPI_INDEX", f"{index.url} {second.url}")
    assert versions(lock(tmp_path, "a")) == {"a": "1", "b": "5"}


def test_mixed_cuda_is_refused(index, tmp_path):  # trap 1
    index.add("nvidia-cuda-runtime", "13.0.96")
    index.add("nvidia-cuda-nvcc", "13.0.88")
    index.add("nvidia-cuda-nvcc", "13.2.86")
    with pytest.raises(UserError, match="of different versions") as error:
        lock(tmp_path, "nvidia-cuda-runtime", "nvidia-cuda-nvcc")
    assert "13.0: nvidia-cuda-runtime 13.0.96" in str(error.value)
    assert "13.2: nvidia-cuda-nvcc 13.2.86" in str(error.value)
    assert lock(tmp_path, "nvidia-cuda-runtime", "nvidia-cuda-nvcc<13.1")["cuda"] == "13.0"


def test_machines_with_different_cuda_are_refused(index, tmp_path):  # trap 1
    index.add("nvidia-cuda-nvcc", "13.0.88", NATIVE.format("aarch64"))
    index.add("nvidia-cuda-nvcc", "13.2.86", NATIVE.format("x86_64"))
    with pytest.raises(UserError, match="toolkits differ"):
        lock(tmp_path, "nvidia-cuda-nvcc")


def test_a_newer_glibc_is_refused_with_the_tag_and_what_there_is(index, tmp_path):  # case 40
    index.add("a", "1", "cp313-cp313-manylinux_2_28_x86_64")
    index.add("a", "1", "cp313-cp313-manylinux_2_42_aarch64")
    with pytest.raises(UserError) as error:
        lock(tmp_path, "a==1")
    said = str(error.value)
    assert "manylinux_2_42_aarch64" in said
    assert "tag needs glibc 2.42, the userland has 2.41" in said


def test_a_tegra_build_is_refused_for_server_arm(index, tmp_path):  # case 40
    index.add("a", "1+l4t36", NATIVE.format("x86_64"))
    index.add("a", "1+l4t36", NATIVE.format("aarch64"))
    with pytest.raises(UserError, match="sbsa") as error:
        lock(tmp_path, "a==1+l4t36")
    assert "a-1+l4t36" in str(error.value)


def test_a_source_is_no_wheel(index, tmp_path):
    index.add_source("a", "1")
    with pytest.raises(UserError, match="uv cannot resolve") as error:
        lock(tmp_path, "a")
    assert "wheel" in str(error.value) and "requirements.in" in str(error.value)


def test_a_yanked_version_is_taken_only_where_it_is_asked_for(index, tmp_path):  # PEP 592
    index.add("a", "1")
    index.add("a", "2", yanked="broken")
    assert versions(lock(tmp_path, "a")) == {"a": "1"}
    assert versions(lock(tmp_path, "a==2")) == {"a": "2"}


def test_an_index_that_is_busy_is_asked_again(index, web, tmp_path):
    index.add("a", "1")
    for path in ("/simple/files/a-1-py3-none-any.whl.metadata", "/simple/a/"):
        web.replies[path] = [web.replies[path][0], server.status(503), web.replies[path][0]]
    assert versions(lock(tmp_path, "a")) == {"a": "1"}


def test_an_index_without_hashes_is_refused(index, tmp_path):
    index.add("a", "1", hashes={})
    with pytest.raises(UserError, match="no hash or size"):
        lock(tmp_path, "a")


def test_no_index_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("APERTUS_PYPI_INDEX", str(tmp_path))
    with pytest.raises(UserError, match="no index") as error:
        lock(tmp_path, "a")
    assert "APERTUS_PYPI_INDEX" in error.value.next_step
