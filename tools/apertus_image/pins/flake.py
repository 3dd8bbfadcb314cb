"""The flake's inputs against flake.lock, without Nix and without the network (case 31).

Nix mends a lock that does not match, by fetching what is declared now, so it cannot be asked.
Source: Nix manual, "Flake references", "Flake inputs" and "Lock files".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from apertus_image.errors import UserError

__all__ = ["faults", "parsed"]

VERSIONS = (5, 6, 7)  # of lock files, by flakes alone
FORGES = ("github", "gitlab", "sourcehut")
OF_COMMITS = (*FORGES, "git", "hg")
ARCHIVE = re.compile(r"\.(zip|tar|tgz|tar\.(gz|xz|bz2|zst))$")
REVISION = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
# What does not say which input it is.
BESIDE = ("flake", "inputs", "follows")

Attributes = dict[str, str]


def faults(declared: Mapping[str, Any], file: Path) -> Iterator[UserError]:
    """What does not agree, and what is not pinned.

    Args:
        declared: `inputs` of flake.nix, as Nix evaluates them.
        file: flake.lock.
    """
    try:
        lock = json.loads(file.read_bytes())
        nodes, version = lock["nodes"], lock["version"]
        root = nodes[lock["root"]]
    except FileNotFoundError:
        yield UserError("the flake has no lock", where=file, next_step="git checkout flake.lock")
        return
    except (ValueError, KeyError, TypeError) as error:
        yield UserError("the flake's lock cannot be read", where=file,
                        got=f"{type(error).__name__}: {error}", next_step="git checkout flake.lock")
        return
    if version not in VERSIONS:
        yield UserError("the flake's lock has a version this project does not know", where=file,
                        expected=" or ".join(map(str, VERSIONS)), got=version)
        return
    yield from _against(declared, root, nodes, (), file)
    for name in sorted(set(root.get("inputs", {})) - set(declared)):
        yield UserError("the lock has an input that the flake does not declare",
                        where=f"{file.name}: input {name}", next_step="nix flake lock")
    for name in sorted(nodes):
        if name != lock["root"]:
            yield from _pinned(name, nodes[name], file)


def _against(
    declared: Mapping[str, Any], node: Mapping[str, Any], nodes: Mapping[str, Any],
    above: tuple[str, ...], file: Path,
) -> Iterator[UserError]:
    """Declared inputs, and what is declared of their own inputs, each against its lock."""
    locked = node.get("inputs", {})
    for name, wanted in sorted(declared.items()):
        path = "/".join((*above, name))
        target = locked.get(name)
        if target is None:
            yield _differs(path, _text(wanted), "nothing", file)
        elif "follows" in wanted:
            follows = [part for part in wanted["follows"].split("/") if part]
            if target != follows:
                yield _differs(path, _text(wanted), _target(target, nodes), file)
        elif not isinstance(target, str):
            yield _differs(path, _text(wanted), _target(target, nodes), file)
        else:
            yield from _same(path, wanted, nodes.get(target, {}), file)
            yield from _against(wanted.get("inputs", {}), nodes.get(target, {}), nodes,
                                (*above, name), file)


def _same(
    path: str, wanted: Mapping[str, Any], node: Mapping[str, Any], file: Path
) -> Iterator[UserError]:
    """One declared input against its node."""
    own = {key: value for key, value in wanted.items() if key not in BESIDE}
    if not own and wanted.get("inputs"):
        return  # only its inputs are said something of
    now = parsed(own)
    if now is None:
        yield UserError("an input is declared in a form that cannot be compared with its lock",
                        where=f"flake.nix: input {path}", got=_text(wanted),
                        expected="github:, git+…, tarball+…, a URL of an archive, or path:",
                        next_step="declare it in one of these")
    elif now != _texts(node.get("original", {})):
        yield _differs(path, _text(wanted), _text(node.get("original", {})), file)
    elif wanted.get("flake", True) != node.get("flake", True):
        yield _differs(path, f"flake = {json.dumps(wanted.get('flake', True))}",
                       f"flake = {json.dumps(node.get('flake', True))}", file)


def _pinned(name: str, node: Mapping[str, Any], file: Path) -> Iterator[UserError]:
    """Whether a node is one content, for everybody."""
    locked = node.get("locked", {})
    kind, where = locked.get("type"), f"{file.name}: input {name}"
    if kind == "path" or str(locked.get("url", "")).startswith("file:"):
        yield UserError("an input is a folder or file of one machine", where=where,
                        got=_text(locked), expected="what others can fetch too",
                        next_step="tools/build --source DIR takes a checkout without the lock")
        return
    missing = [] if locked.get("narHash") else ["narHash"]
    if kind in OF_COMMITS and not REVISION.fullmatch(str(locked.get("rev", ""))):
        missing.append("rev")
    if missing or kind in (None, "indirect"):
        yield UserError("an input is not pinned", where=where,
                        expected="a commit and the hash of its files",
                        got=f"no {' and no '.join(missing)}" if missing else f"type {kind}",
                        next_step="nix flake lock")


def parsed(declared: Mapping[str, Any]) -> Attributes | None:
    """An input's attributes as the lock's `original` has them; None for a form not known.

    >>> parsed({"url": "github:nlewo/nix2container/v1"})
    {'type': 'github', 'owner': 'nlewo', 'repo': 'nix2container', 'ref': 'v1'}
    """
    more = {key: value for key, value in declared.items() if key != "url"}
    if "url" not in declared or "type" in declared:
        return _texts(declared) if "type" in declared else None
    url, _, query = str(declared["url"]).partition("?")
    scheme, colon, rest = url.partition(":")
    layer, _, inner = scheme.partition("+")
    if scheme in FORGES:
        owner, _, tail = rest.partition("/")
        repo, _, version = tail.partition("/")
        if not owner or not repo:
            return None
        found = {"type": scheme, "owner": owner, "repo": repo} | _version(version)
    elif layer in ("git", "hg", "tarball", "file") and inner:
        found = {"type": layer, "url": f"{inner}:{rest}"}
    elif scheme in ("http", "https", "file"):
        found = {"type": "tarball" if ARCHIVE.search(url) else "file", "url": url}
    elif scheme == "path" or url.startswith(("/", "./", "../")):
        found = {"type": "path", "path": rest if colon else url}
    elif scheme == "flake" or not colon and re.fullmatch(r"[a-zA-Z][\w-]*(/.+)?", url):
        name, _, version = (rest if colon else url).partition("/")
        ref, _, last = version.rpartition("/")
        both = (ref, last) if REVISION.fullmatch(last) else (version,)
        found = {"type": "indirect", "id": name}
        for part in both:
            found |= _version(part)
    else:
        return None
    if "url" in found and query:
        found["url"] += f"?{query}"
        return _texts(found | more)
    return _texts(found | dict(parse_qsl(query)) | more)


def _version(text: str) -> Attributes:
    return {"rev" if REVISION.fullmatch(text) else "ref": text} if text else {}


def _texts(attributes: Mapping[str, Any]) -> Attributes:
    """Attributes in the one form that different releases of Nix are brought to.

    Values are texts, as in a URL. What a URL's query says is an attribute of its own (2.8 leaves
    `dir` of a git repository in it); for an archive the query is the server's, but for the hash.
    """
    found = {key: {"True": "1", "False": "0"}.get(str(value), str(value))
             for key, value in attributes.items() if key not in BESIDE}
    url, mark, query = found.get("url", "").partition("?")
    if mark:
        asked = parse_qsl(query, keep_blank_values=True)
        if found.get("type") in ("tarball", "file"):
            ours = [(key, value) for key, value in asked if key == "narHash"]
            kept = "&".join(part for part in query.split("&") if not part.startswith("narHash="))
            found["url"] = f"{url}?{kept}" if kept else url
        else:
            ours, found["url"] = asked, url
        found |= {key: value for key, value in ours if key not in found}
    return found


def _text(attributes: Mapping[str, Any]) -> str:
    """An input for the reader."""
    if "follows" in attributes:
        return f"follows {json.dumps(attributes['follows'])}"
    one = _texts(attributes)
    if set(one) == {"url"}:
        return one["url"]
    if one.get("type") in FORGES:
        tail = "/".join(one.pop(key) for key in ("owner", "repo", "rev", "ref") if key in one)
        return f"{one.pop('type')}:{tail}" + "".join(f" {k}={v}" for k, v in one.items())
    return " ".join(f"{key}={value}" for key, value in one.items()) or "nothing"


def _target(target: object, nodes: Mapping[str, Any]) -> str:
    if isinstance(target, list):
        return _text({"follows": "/".join(target)})
    return _text(nodes.get(str(target), {}).get("original", {}))


def _differs(path: str, declared: str, locked: str, file: Path) -> UserError:
    return UserError("an input is declared otherwise than it is locked",
                     where=f"flake.nix and {file.name}: input {path}",
                     expected=f"declared: {declared}", got=f"locked: {locked}",
                     next_step="git checkout one of the two, or lock it anew: nix flake lock")
