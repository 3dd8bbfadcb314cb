"""Where inputs are asked for: what pip, apt and go on this machine are set to.

No registry's host name is written in this project (design decision 4). An APERTUS_*
variable, space separated, replaces what the machine says:

    APERTUS_PYPI_INDEX        simple indexes (PEP 503, PEP 691), or folders of wheels
    APERTUS_DEBIAN_MIRRORS    mirrors (…/debian), or folders holding pool/ or the files
    APERTUS_DEBIAN_SNAPSHOT   snapshot archives (…/archive/debian), asked with the lock's date
    APERTUS_GOPROXY           as go's GOPROXY
    APERTUS_CA_BUNDLE         certificates to trust, a PEM file
"""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "apt_proxies", "ca_bundle", "debian_mirrors", "debian_snapshots", "find_links", "folder_of",
    "go_proxy", "wheel_indexes",
]

APT = Path("/etc/apt")


def _variable(name: str) -> list[str]:
    return [item.rstrip("/") for item in os.environ.get(name, "").split()]


def folder_of(place: str) -> Path | None:
    """The folder that a place is, None for a URL."""
    if place.startswith("file:"):
        # apt writes file:/path, others file:///path.
        return Path(re.sub(r"^file:(//)?", "", place))
    return None if re.match(r"[a-z][a-z0-9+.-]*://", place) else Path(place)


# -- pip ------------------------------------------------------------------------------


def wheel_indexes() -> list[str]:
    """Simple indexes, first choice first: the variable, else pip's configuration."""
    if given := _variable("APERTUS_PYPI_INDEX"):
        return given
    if _pip_setting("no-index").lower() in ("1", "true", "yes", "on"):
        return []
    first = _pip_setting("index-url").split() or _pip_default()
    return [url.rstrip("/") for url in first + _pip_setting("extra-index-url").split()]


def find_links() -> list[str]:
    """Folders of wheels and pages of links, from pip's configuration; it has few as a rule."""
    if _variable("APERTUS_PYPI_INDEX"):
        return []
    return _pip_setting("find-links").split()


def _pip_setting(key: str) -> str:
    """What `pip install` on this machine would use for an option, empty if unset."""
    settings = _pip_settings()
    found = (settings.get(f"{section}.{key}", "") for section in (":env:", "install", "global"))
    return next((value for value in found if value), "")


@functools.cache
def _pip_settings() -> dict[str, str]:
    """All that pip is set to, by files and variables, in pip's own words."""
    settings = {}
    for line in _python("-m", "pip", "config", "list").splitlines():
        key, _, value = line.partition("=")
        try:
            settings[key] = str(ast.literal_eval(value))
        except (ValueError, SyntaxError):
            continue
    return settings


def _pip_default() -> list[str]:
    """What pip uses when nothing is configured, asked from pip itself."""
    return _python("-c", "from pip._internal.models.index import PyPI; "
                         "print(PyPI.simple_url)").split()


def _python(*arguments: str) -> str:
    """Output of a Python that has pip: this one, else the machine's."""
    for program in dict.fromkeys([sys.executable, shutil.which("python3")]):
        if not program:
            continue
        result = subprocess.run([program, *arguments], capture_output=True, text=True)
        if result.returncode == 0:
            return result.stdout
    return ""


# -- apt ------------------------------------------------------------------------------


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
            found += _deb822(text)
        elif file.suffix == ".list":
            found += re.findall(r"(?m)^\s*deb\s+(?:\[[^\]]*\]\s*)?(\S+)", text)
    mirrors = (mirror for uri in found for mirror in _resolved(uri))
    return list(dict.fromkeys(mirror.rstrip("/") for mirror in mirrors))


def _deb822(text: str) -> Iterator[str]:
    """URIs of binary packages in a .sources file (sources.list(5), "DEB822-STYLE FORMAT")."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", "\n".join(lines)):
        fields = {
            name.lower(): value.split()
            for name, value in re.findall(r"(?m)^([\w-]+):(.*(?:\n[ \t]+.*)*)", stanza)
        }
        if fields.get("enabled", ["yes"])[0].lower() in ("no", "false", "0", "off", "without"):
            continue
        if "deb" in fields.get("types", []):
            yield from fields.get("uris", [])


def _resolved(uri: str) -> Iterator[str]:
    """What an apt URI means here: itself, the mirrors of a list on this machine, or nothing.

    Cloud images of Debian name their mirrors by `mirror+file:` (apt-transport-mirror(1)).
    """
    if uri.startswith("mirror+file:"):
        listed = folder_of(uri.removeprefix("mirror+"))
        if listed and listed.is_file():
            yield from re.findall(r"(?m)^\s*([^\s#]\S*)", listed.read_text(errors="replace"))
    elif uri.startswith(("http://", "https://", "file:")):
        yield uri
    elif uri.startswith("copy:"):
        yield uri.replace("copy:", "file:", 1)


def debian_snapshots() -> list[str]:
    """Snapshot archives, from the variable alone; a lock's date makes them whole."""
    return _variable("APERTUS_DEBIAN_SNAPSHOT")


def apt_proxies() -> dict[str, str]:
    """Proxies that apt asks its mirrors through, as requests wants them: scheme -> URL."""
    if not (program := shutil.which("apt-config")):
        return {}
    text = subprocess.run([program, "dump"], capture_output=True, text=True).stdout
    found = re.findall(r'(?mi)^Acquire::(https?)::Proxy(?:::([^\s:]+))? "([^"]+)";', text)
    return {
        scheme.lower() + (f"://{host}" if host else ""): "" if url.upper() == "DIRECT" else url
        for scheme, host, url in found
    }


# -- go, certificates -----------------------------------------------------------------


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
    for file in (_pip_setting("cert"), "/etc/ssl/certs/ca-certificates.crt"):
        if file and Path(file).is_file():
            return file
    return None
