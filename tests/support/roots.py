"""Small root file systems that the lint has nothing against, to be spoilt in one way each."""

from __future__ import annotations

import shutil
from pathlib import Path

from apertus_image.bytecode.compile import compile_tree
from apertus_image.elf.cuda import build as build_cuda
from apertus_image.elf.ldcache import build as build_cache
from support import elf
from support.wheels import PREFIX, PYTHON, SITE

GLIBC = "2.36"
TRIPLET = "usr/lib/x86_64-linux-gnu"
LIBC = f"{TRIPLET}/libc.so.6"
TOOLKIT = f"{SITE}/nvidia/cu13"
START = "int {f}(void); void _start(void) {{ {f}(); for (;;); }}\n"


def libc(output: Path, *versions: str) -> Path:
    """A C library that defines these versions, a function `f_2_34` for 2.34 and so on."""
    script = output.with_name("versions")
    script.parent.mkdir(parents=True, exist_ok=True)
    nodes = [f"GLIBC_{v} {{ global: f_{v.replace('.', '_')}; local: *; }};" for v in versions]
    script.write_text("\n".join(nodes))
    source = "".join(f"int f_{v.replace('.', '_')}(void) {{ return 1; }}\n" for v in versions)
    elf.library(output, f"-Wl,--version-script={script}", soname="libc.so.6", source=source)
    script.unlink()
    return output


def text(root: Path, path: str, content: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def module(root: Path, path: str, content: str) -> None:
    """A Python module with its bytecode."""
    text(root, path, content)
    compile_tree(root, [f"/{path}"], PYTHON)


def wheel_tag(root: Path, *tags: str, name: str = "pkg") -> None:
    text(root, f"{SITE[1:]}/{name}-1.0.dist-info/WHEEL",
         "Wheel-Version: 1.0\n" + "".join(f"Tag: {tag}\n" for tag in tags))


def good(root: Path) -> Path:
    """A userland and a package, without the loader's cache."""
    for folder in ("etc", "usr/share", "usr/bin", "usr/sbin", "usr/lib64", "var", "tmp", "root",
                   "run", TRIPLET):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for name in ("passwd", "group", "nsswitch.conf", "environment", "debian_version"):
        text(root, f"etc/{name}")
    text(root, "etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    libc(root / LIBC, "2.2.5", "2.34", GLIBC)
    elf.library(root / "usr/lib64/ld-linux-x86-64.so.2", soname="ld-linux-x86-64.so.2")
    for path in ("usr/bin/dash", "usr/sbin/ldconfig"):
        elf.compile_c(root / path, START.format(f="f_2_34"), "-nostdlib", root / LIBC)
    (root / "usr/bin/sh").symlink_to("dash")
    module(root, f"{SITE[1:]}/pkg/m.py", "value = 1\n")
    wheel_tag(root, "py3-none-any")
    return root


def toolkit(root: Path, work: Path) -> Path:
    """CUDA's wheels and what completes them, in a root."""
    home = TOOLKIT[1:]
    text(root, f"{home}/include/cuda.h",
         "".join(f"CUresult CUDAAPI cuFunction{n}(int);\n" for n in range(400)))
    text(root, f"{home}/bin/nvcc")
    elf.library(root / home / "lib/libcudart.so.13", soname="libcudart.so.13")
    build_cuda({"machine": "x86_64", "prefix": PREFIX, "python": PYTHON, "trees": [str(root)]},
               work / "cuda", work / "cuda.m")
    shutil.copytree(work / "cuda", root, dirs_exist_ok=True, symlinks=True)
    return root


def cached(work: Path, *roots: Path) -> Path:
    """A tree with the loader's cache over these roots."""
    out = work / "cache"
    if out.exists():
        shutil.rmtree(out)
    build_cache({"machine": "x86_64", "roots": [str(root) for root in roots]}, out, work / "c.m")
    return out


def spec(*trees: Path, cuda: bool = False, waivers: list[dict] | None = None,
         machine: str = "x86_64", glibc: str = GLIBC) -> dict:
    """The spec of a lint, a layer for each tree."""
    layers = [{"name": f"l{n}", "trees": [str(tree)]} for n, tree in enumerate(trees)]
    return {"machine": machine, "glibc": glibc, "cuda": cuda, "waivers": waivers or [],
            "layers": layers}
