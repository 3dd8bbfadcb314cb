"""Signatures with an SSH key, made and checked by ssh-keygen (`-Y`, OpenSSH 8.2 or newer).

Optional. Who may sign is a file of allowed signers (ssh-keygen(1), ALLOWED SIGNERS), one a line:
`engineer@site namespaces="apertus-image" ssh-ed25519 AAAA…`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["NAMESPACE", "fingerprint", "key_of", "sign", "verify"]

NAMESPACE = "apertus-image"
"""A signature made for another purpose does not count here."""


def sign(data: bytes, key: Path) -> bytes:
    """The signature of a file's bytes, as it lies in FILE.sig.

    Args:
        key: a private key, or the public one of a key that an agent has. ssh-keygen asks for a
            passphrase on the terminal.

    Raises:
        UserError: the key cannot be used, or ssh-keygen is missing.
    """
    if not key.is_file():
        raise UserError("there is no such key", where=key, expected="an SSH key",
                        next_step="ssh-keygen -t ed25519 makes one")
    done = _run("-Y", "sign", "-f", str(key), "-n", NAMESPACE, data=data)
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE"):
        raise UserError("the key cannot sign", where=key, got=_said(done),
                        expected="a private key, or a public one that the agent has the key to")
    return done.stdout


def verify(data: bytes, signature: bytes, signers: Path, where: object = None) -> str:
    """Who signed; one of the allowed signers.

    Args:
        signers: file of allowed signers.
        where: the signed file, for errors.

    Raises:
        UserError: the data or the signature was changed, or none of the signers made it.
    """
    if not signers.is_file():
        raise UserError("there is no file of allowed signers", where=signers,
                        expected='lines of: NAME namespaces="apertus-image" ssh-ed25519 AAAA…')
    with tempfile.NamedTemporaryFile(prefix="apertus-", suffix=".sig") as file:
        file.write(signature)
        file.flush()
        found = _run("-Y", "find-principals", "-f", str(signers), "-s", file.name)
        names = found.stdout.decode(errors="replace").splitlines()
        if found.returncode or not names:
            raise UserError("none of the allowed signers made the signature", where=where,
                            expected=f"a signer of {signers}", got=_said(found),
                            next_step="take the file from where it was published, or add the key")
        for name in names:
            done = _run("-Y", "verify", "-f", str(signers), "-I", name, "-n", NAMESPACE,
                        "-s", file.name, data=data)
            if done.returncode == 0:
                return name
    raise _bad(where, _said(done))


def key_of(data: bytes, signature: bytes, where: object = None) -> str:
    """The fingerprint of the key that signed, whoever's it is.

    Raises:
        UserError: the data or the signature was changed.
    """
    with tempfile.NamedTemporaryFile(prefix="apertus-", suffix=".sig") as file:
        file.write(signature)
        file.flush()
        done = _run("-Y", "check-novalidate", "-n", NAMESPACE, "-s", file.name, data=data)
    if done.returncode:
        raise _bad(where, _said(done))
    return _fingerprint_in(done) or "of unknown fingerprint"


def fingerprint(key: Path) -> str:
    """The fingerprint of a key, as key_of gives it of what the key signs.

    Args:
        key: as for `sign`. No passphrase is asked for, unless the file is in a form older than
            OpenSSH's own and no public key lies beside it: then it has to sign.

    Raises:
        UserError: the key cannot be used, or ssh-keygen is missing.
    """
    done = _run("-l", "-E", "sha256", "-f", str(key))
    return (not done.returncode and _fingerprint_in(done)) or key_of(b"", sign(b"", key))


def _fingerprint_in(done: subprocess.CompletedProcess[bytes]) -> str:
    found = re.search(rb"SHA256:\S+", done.stdout + done.stderr)
    return found[0].decode() if found else ""


def _bad(where: object, got: str) -> UserError:
    return UserError("the signature is not of these bytes", where=where, got=got,
                     expected=f"a signature for {NAMESPACE}",
                     next_step="take the file and its .sig from where they were published")


def _run(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["ssh-keygen", *arguments], input=data, capture_output=True)
    except FileNotFoundError as error:
        raise UserError("ssh-keygen is not installed",
                        next_step="install openssh-client (tools/setup --tests)") from error


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    said = (done.stderr or done.stdout).decode(errors="replace").strip()
    return said[-500:] or f"exit code {done.returncode}"
