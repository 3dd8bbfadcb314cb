"""Where inputs are asked for: what pip, apt and go on this machine are set to.

No registry's host name is written in this project (design decision 4). An APERTUS_*
variable, space separated, replaces what the machine says:

    APERTUS_PYPI_INDEX        simple indexes (PEP 503, PEP 691)
    APERTUS_DEBIAN_MIRRORS    mirrors (…/debian), or folders holding pool/ or the files
    APERTUS_DEBIAN_SNAPSHOT   snapshot archives (…/archive/debian), asked with the lock's date
    APERTUS_GOPROXY           as go's GOPROXY
    APERTUS_CA_BUNDLE         certificates to trust, a PEM file
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["ca_bundle", "debian_mirrors", "debian_snapshots", "go_proxy", "wheel_indexes"]

APT = Path("/etc/apt")


def _variable(name: str) -> list[str]:
    return [item.rstrip("/") for item in os.environ.get(name, "").split()]


def wheel_indexes() -> list[str]:
    """Simple indexes, first choice first: the variable, else pip's configuration."""
    if given := _variable("APERTUS_PYPI_INDEX"):
        return given
    found: list[str] = []
    for key in ("global.index-url", "global.extra-index-url"):
        variable = "PIP_" + key.split(".")[1].upper().replace("-", "_")
        text = os.environ.get(variable) or _pip("config", "get", key)
        found += text.split()
        if key == "global.index-url" and not found:
            found += _pip_default()
    return [url.rstrip("/") for url in found]


def _pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def _pip_default() -> list[str]:
    """What pip uses when nothing is configured, asked from pip itself."""
    code = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return result.stdout.split()


def debian_mirrors(apt: Path = APT) -> list[str]:
    """Mirrors, first choice first: the variable, else the URIs of apt's sources."""
    if given := _variable("APERTUS_DEBIAN_MIRRORS"):
        return given
    found: list[str] = []
    for file in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        if not file.is_file():
            continue
        text = file.read_text(errors="replace")
        if file.suffix == ".sources":
            for line in re.findall(r"(?mi)^URIs:(.*(?:\n[ \t]+\S.*)*)", text):
                found += line.split()
        elif file.suffix == ".list":
            found += re.findall(r"(?m)^\s*deb\s+(?:\[[^\]]*\]\s*)?(\S+)", text)
    return list(dict.fromkeys(uri.rstrip("/") for uri in found))


def debian_snapshots() -> list[str]:
    """Snapshot archives, from the variable alone; a lock's date makes them whole."""
    return _variable("APERTUS_DEBIAN_SNAPSHOT")


def go_proxy() -> str | None:
    """GOPROXY: the variable, else what go on this machine says, else None."""
    if given := os.environ.get("APERTUS_GOPROXY"):
        return given
    go = shutil.which("go")
    if not go:
        return os.environ.get("GOPROXY")
    return subprocess.run([go, "env", "GOPROXY"], capture_output=True, text=True).stdout.strip()


def ca_bundle() -> str | None:
    """A PEM file of certificates to trust, None for requests' own."""
    for name in ("APERTUS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "PIP_CERT"):
        value = os.environ.get(name)
        if value and Path(value).is_file():
            return value
    system = Path("/etc/ssl/certs/ca-certificates.crt")
    return str(system) if system.is_file() else None
