"""Bytecode that is the same every time, belongs to its source, and runs."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

import pytest
from apertus_image.bytecode import compile as module
from apertus_image.bytecode.compile import (
    ENVIRONMENT,
    OPTIONS,
    ZYGOTE,
    cache_path,
    compile_tree,
    workers,
)
from apertus_image.errors import UserError
from support.trees import make
from support.wheels import PYTHON

# Modules with equal sets, names and constants, where bytecode is known to vary (case 38).
SHARED = (
    "NAMES = ('alpha', 'beta', 'gamma')\n"
    "def f(x, *, alpha=1):\n"
    "    return x in {'alpha', 'beta', 'gamma', 1, 2.5, None, b'x', ('y', 'z')}\n"
    "class C:\n    alpha: int = 12345678\n"
    "    def __init__(self):\n        self.one, self.two, self.three, self.four = 1, 2, 3, 4\n"
)
# The example of python/cpython#129724: the second comes out otherwise after the first.
FIRST, SECOND = "import foo\n", "a = {'foo', 2, 3}\n\ndef f():\n    b = {'foo', 2, 3}\n"
SOURCES = {
    **{f"/pkg/m{n}.py": SHARED + f"def only_{n}(): return 'beta', {n}\n" for n in range(6)},
    "/pkg/first.py": FIRST, "/pkg/second.py": SECOND,
}


def tree(root, sources):
    make(root, {path[1:]: text for path, text in sources.items()})
    for folder in (root, *(p for p in root.rglob("*") if p.is_dir())):
        folder.chmod(0o755)
    return root


def bytecode(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*.pyc"))}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    root = tree(tmp_path_factory.mktemp("expected") / "tree", SOURCES)
    compile_tree(root, SOURCES, PYTHON, 1)
    assert len(bytecode(root)) == len(SOURCES)
    return bytecode(root)


@pytest.mark.parametrize(("backwards", "count"), 
                         list(itertools.product([False, True], [1, 2, 4, 99])))
def test_order_and_workers_do_not_matter(tmp_path, expected, backwards, count):  # case 38
    root = tree(tmp_path / "tree", SOURCES)
    compile_tree(root, sorted(SOURCES, reverse=backwards), PYTHON, count)
    assert bytecode(root) == expected


def test_each_file_alone_gives_the_same(tmp_path, expected):  # case 38
    root = tree(tmp_path / "tree", SOURCES)
    for path in sorted(SOURCES, reverse=True):
        compile_tree(root, [path], PYTHON, 1)
    assert bytecode(root) == expected


def naive(*sources):
    """The last source's bytecode, where one process compiled all of them."""
    code = ("import marshal, sys\nfor text in sys.argv[1:]:\n"
            "    data = marshal.dumps(compile(text, 'x', 'exec', dont_inherit=True))\n"
            "print(data.hex())")
    return subprocess.run([sys.executable, "-S", "-c", code, *sources], check=True,
                          capture_output=True, env={"PYTHONHASHSEED": "0"}).stdout


@pytest.mark.skipif(sys.version_info < (3, 12),
                    reason="not run: before Python 3.12 this example shows no difference")
def test_the_control_one_process_for_all_gives_another_second_after_the_first():  # case 38
    assert naive(SECOND) == naive(SECOND)
    assert naive(SECOND) != naive(FIRST, SECOND)


@pytest.mark.parametrize("seed", ["0", "1", "2", "3"])
def test_the_compiler_itself_does_not_mind_its_hash_seed(tmp_path, expected, seed):  # case 38
    root = tree(tmp_path / "tree", SOURCES)
    assert zygote(root, SOURCES, seed=seed) == [b""] * len(SOURCES)
    assert sorted(bytecode(root).values()) == sorted(expected.values())


def zygote(root, sources, seed="0"):
    """The lines that the compiling process itself says; bytecode lies beside the sources."""
    fields = [field for path in sources for field in (f"{root}{path}", f"{root}{path}c", path)]
    result = subprocess.run([sys.executable, *OPTIONS, ZYGOTE], check=True, capture_output=True,
                            input=b"".join(field.encode() + b"\0" for field in fields),
                            env={**ENVIRONMENT, "PYTHONHASHSEED": seed})
    return result.stdout.splitlines()


@pytest.mark.parametrize("surroundings", [
    {"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"}, {"PYTHONOPTIMIZE": "2"},
    {"PYTHONDONTWRITEBYTECODE": "1", "SOURCE_DATE_EPOCH": "1"}, {"LC_ALL": "C", "TZ": "Asia/Tokyo"},
    {"PYTHONPYCACHEPREFIX": "nowhere"}, {"PYTHONNODEBUGRANGES": "1"},
], ids=lambda given: ",".join(f"{k}={v}" for k, v in given.items()).replace("/", "|"))
def test_seeds_clocks_and_settings_do_not_matter(tmp_path, expected, surroundings):  # case 38
    root = tree(tmp_path / "elsewhere/tree", SOURCES)
    code = ("import json, sys; from pathlib import Path\n"
            "from apertus_image.bytecode.compile import compile_tree\n"
            "compile_tree(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3], 2)")
    path = os.pathsep.join(folder for folder in sys.path if folder)
    subprocess.run([sys.executable, "-c", code, root, json.dumps(list(SOURCES)), PYTHON],
                   check=True, umask=0o077, cwd=tmp_path, env={"PYTHONPATH": path, **surroundings})
    assert bytecode(root) == expected


def test_header_says_unchecked_hash_of_this_source(tmp_path):  # case 38, trap 14
    text = "value = 1\n"
    root = tree(tmp_path / "tree", {"/a/m.py": text})
    [each] = compile_tree(root, ["/a/m.py"], PYTHON)
    data = (root / each.path[1:]).read_bytes()
    assert data[:4] == MAGIC_NUMBER
    assert data[4:8] == b"\1\0\0\0"
    assert data[8:16] == source_hash(text.encode())
    assert (each.sha256, each.size) == (hashlib.sha256(data).hexdigest(), len(data))
    assert each.path == f"/a/__pycache__/m.{sys.implementation.cache_tag}.pyc"


def test_tracebacks_name_the_images_path(tmp_path):  # trap 14
    root = tree(tmp_path / "tree", {"/opt/m.py": "def f():\n    raise ValueError\n"})
    [each] = compile_tree(root, ["/opt/m.py"], PYTHON)
    data = (root / each.path[1:]).read_bytes()
    assert b"/opt/m.py" in data
    assert str(tmp_path).encode() not in data


def test_the_interpreter_takes_it_without_looking_at_the_source(tmp_path):  # trap 14
    root = tree(tmp_path / "tree", {"/m.py": "print('first')\n"})
    compile_tree(root, ["/m.py"], PYTHON)
    (root / "m.py").unlink()
    (root / "m.py").write_text("print('second')\n")
    result = subprocess.run([sys.executable, "-B", "-c", "import m"], env={"PYTHONPATH": str(root)},
                            capture_output=True, text=True, check=True)
    assert result.stdout == "first\n"


def test_asserts_and_docstrings_stay(tmp_path):
    root = tree(tmp_path / "tree", {"/m.py": '"""Said."""\nassert False, "kept"\n'})
    [each] = compile_tree(root, ["/m.py"], PYTHON)
    data = (root / each.path[1:]).read_bytes()
    assert b"Said." in data and b"kept" in data


@pytest.mark.parametrize("text", ["def (:\n", "{{ template }} x\n", "a = '\0'\n", b"a = '\xff'\n"],
                         ids=["syntax", "template", "zero", "encoding"])
def test_what_does_not_compile_is_skipped_and_told(tmp_path, text):
    root = tree(tmp_path / "tree", {"/pkg/bad.py": text, "/pkg/good.py": "x = 1\n",
                                    "/templates/t.py": "{{ only this }} x\n"})
    found = compile_tree(root, ["/pkg/bad.py", "/pkg/good.py", "/templates/t.py"], PYTHON)
    bad, good, template = found
    assert "Error" in bad.skipped and bad.sha256 is None
    assert good.skipped is None
    assert list(bytecode(root)) == [good.path[1:]]
    # No folder is made for nothing.
    assert template.skipped and not (root / "templates/__pycache__").exists()


def test_declared_encodings_are_kept(tmp_path):
    text = "# coding: latin-1\nvalue = 'é'\n".encode("latin-1")
    root = tree(tmp_path / "tree", {"/m.py": text})
    compile_tree(root, ["/m.py"], PYTHON)
    code = "import m; print(ascii(m.value))"
    result = subprocess.run([sys.executable, "-B", "-c", code], env={"PYTHONPATH": str(root)},
                            capture_output=True, text=True, check=True)
    assert result.stdout == "'\\xe9'\n"


def test_another_python_than_the_images_is_refused(tmp_path):
    root = tree(tmp_path / "tree", {"/m.py": ""})
    with pytest.raises(UserError, match="image's own Python") as error:
        compile_tree(root, ["/m.py"], "3.7")
    assert (error.value.expected, error.value.got) == ("3.7", PYTHON)
    assert bytecode(root) == {}


DEEP = "x = " + "-" * 500_000 + "1\n"  # more than the compiler's own stack


def test_each_file_is_compiled_in_a_process_of_its_own(tmp_path):  # case 38
    sources = {"/deep.py": DEEP, "/good.py": "x = 1\n"}
    root = tree(tmp_path / "tree", sources)
    died, fine = zygote(root, sources)
    assert died.startswith(b"!the compiler died")
    # What became of the first has left no trace in the process of the second.
    assert fine == b"" and (root / "good.pyc").exists()


def test_a_compiler_that_dies_is_told_with_its_source(tmp_path, capfd):
    root = tree(tmp_path / "tree", {"/deep.py": DEEP})
    with pytest.raises(UserError) as error:
        compile_tree(root, ["/deep.py"], PYTHON)
    assert "compiler of bytecode died" in error.value.what and error.value.where == "/deep.py"
    assert "status" in error.value.got


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="not run: there is no /dev/full")
def test_a_full_disk_is_told_and_is_not_the_sources_fault(tmp_path):
    root = tree(tmp_path / "tree", {"/m.py": "x = 1\n"})
    target = Path(f"{root}{cache_path('/m.py', PYTHON)}")
    target.parent.mkdir()
    target.symlink_to("/dev/full")
    with pytest.raises(UserError) as error:
        compile_tree(root, ["/m.py"], PYTHON)
    assert error.value.where == "/m.py" and "No space left" in error.value.got


def test_a_reason_is_one_line_whatever_the_source_says(tmp_path):
    text = "x = 'é\\\n" + "ü" * 3000 + "\n!\n"
    root = tree(tmp_path / "tree", {"/bad.py": text, "/good.py": "x = 1\n"})
    bad, good = compile_tree(root, ["/bad.py", "/good.py"], PYTHON)
    assert bad.skipped.startswith("SyntaxError") and "\n" not in bad.skipped
    assert good.sha256


def test_names_beyond_ascii(tmp_path):
    root = tree(tmp_path / "tree", {"/pkg/naïve é\n.py": "raise ValueError\n"})
    [each] = compile_tree(root, ["/pkg/naïve é\n.py"], PYTHON)
    assert "naïve é\n.py".encode() in (root / each.path[1:]).read_bytes()


def test_nothing_to_compile(tmp_path):
    assert compile_tree(tmp_path, [], PYTHON) == []


def test_where_bytecode_lies():
    assert cache_path("/a/b/m.py", "3.13") == "/a/b/__pycache__/m.cpython-313.pyc"


@pytest.mark.parametrize(("cores", "count"), [("3", 3), ("1", 1), ("0", 7), (None, 7)])
def test_workers_are_those_that_nix_allows(monkeypatch, cores, count):
    monkeypatch.setattr(module.os, "cpu_count", lambda: 7)
    if cores is None:
        monkeypatch.delenv("NIX_BUILD_CORES", raising=False)
    else:
        monkeypatch.setenv("NIX_BUILD_CORES", cores)
    assert workers() == count
