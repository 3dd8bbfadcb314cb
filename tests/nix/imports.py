"""Run by the toolchain's Python inside the sandbox: what works there, as JSON."""

import hashlib
import json
import multiprocessing
import subprocess
import sys

if __name__ == "__main__":
    import click
    import elftools
    import installer
    import packaging
    import requests
    import yaml
    import zstandard

    child = subprocess.run(
        [sys.executable, "-c", "import sys; print(sys.executable)"],
        capture_output=True, text=True, check=True, env={},
    )
    pools = {}
    for start in ("fork", "spawn"):
        with multiprocessing.get_context(start).Pool(2) as pool:
            pools[start] = pool.map(len, ["a", "bb"])
    print(json.dumps({
        "python": list(sys.version_info[:2]),
        "path": sys.path,
        "executable": sys.executable,
        "child": child.stdout.strip(),
        "pools": pools,
        "modules": sorted(module.__name__ for module in (
            click, elftools, installer, packaging, requests, yaml, zstandard)),
        "certificates": requests.certs.where(),
        "sha256": hashlib.sha256(b"abc").hexdigest(),
        "zstd": zstandard.decompress(zstandard.compress(b"abc")).decode(),
    }))
