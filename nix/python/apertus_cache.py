"""Compile caches of this image, apart from those of any other image or user.

Started by apertus_cache.pth in every interpreter of the environment: in a login shell,
under Pyxis and in Ray's workers alike. A warm cache of another image breaks vLLM, and
ninja trusts times, which are all equal in an image; so each image has a cache of its own,
by the identity of its content. A variable that is set already is left alone.

    APERTUS_CACHE_DIR   where caches go; else $SLURM_TMPDIR, $TMPDIR or /tmp
"""

import os
import stat

CONTENT_ID = "/usr/share/apertus/content-id"

# variable -> folder below the cache
VARIABLES = {
    "CUDA_CACHE_PATH": "cuda",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "NUMBA_CACHE_DIR": "numba",
    "TILELANG_CACHE_DIR": "tilelang",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch-extensions",
    "TRITON_CACHE_DIR": "triton",
    "VLLM_CACHE_ROOT": "vllm",
}


def _content_id():
    with open(CONTENT_ID) as file:
        return file.read(16)


def _own(folder):
    """Make a folder that only this user can enter; say whether it is such a one."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    return (stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            and not found.st_mode & 0o077)


def folder():
    """This user's cache folder for this image; a fresh one where it is another's.

    Raises OSError where nothing can be written.
    """
    base = next(
        os.environ[name] if name else "/tmp"
        for name in ("APERTUS_CACHE_DIR", "SLURM_TMPDIR", "TMPDIR", "")
        if not name or os.path.isdir(os.environ.get(name, ""))
    )
    user = os.path.join(base, "apertus-%d" % os.geteuid())
    if not _own(user):
        import tempfile

        user = tempfile.mkdtemp(prefix="apertus-", dir=base)
    own = os.path.join(user, _content_id())
    if not _own(own):
        raise PermissionError(own)
    return own


def apply():
    """Set the variables that are not set. An interpreter starts whatever happens here."""
    try:
        missing = [name for name in VARIABLES if name not in os.environ]
        if missing:
            own = folder()
            for name in missing:
                os.environ[name] = os.path.join(own, VARIABLES[name])
    except OSError:
        pass


apply()
