"""Signatures with an SSH key, by the real ssh-keygen."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from apertus_image.errors import UserError
from apertus_image.record.sign import fingerprint, key_of, sign, verify

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"),
                                reason="not run: ssh-keygen is not here")
DATA = b'{"a": 1}\n'


def key(folder, name):
    file = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file],
                   check=True)
    return file


def signers(folder, **keys):
    file = folder / "signers"
    file.write_text("".join(
        f'{who} namespaces="apertus-image" {each.with_suffix(".pub").read_text()}'
        for who, each in keys.items()))
    return file


def test_a_signature_names_its_signer(tmp_path):
    mine, other = key(tmp_path, "mine"), key(tmp_path, "other")
    allowed = signers(tmp_path, other=other, me=mine)
    assert verify(DATA, sign(DATA, mine), allowed) == "me"
    assert verify(DATA, sign(DATA, other), allowed) == "other"
    listed = subprocess.run(["ssh-keygen", "-l", "-f", mine], capture_output=True, text=True)
    assert key_of(DATA, sign(DATA, mine)) in listed.stdout


@pytest.mark.parametrize("form", [["-t", "ed25519"], ["-t", "ecdsa"],
                                  ["-t", "rsa", "-b", "2048", "-m", "PEM"]])
def test_a_keys_fingerprint_is_that_of_what_it_signs(tmp_path, form):
    files = [tmp_path / name for name in ("mine", "other")]
    for file in files:
        subprocess.run(["ssh-keygen", "-q", *form, "-N", "", "-f", file], check=True)
    found = [fingerprint(file) for file in files]
    assert found == [key_of(DATA, sign(DATA, file)) for file in files] and found[0] != found[1]
    assert fingerprint(files[0].with_suffix(".pub")) == found[0]
    files[0].with_suffix(".pub").unlink()
    assert fingerprint(files[0]) == found[0]


def test_a_locked_keys_fingerprint_needs_no_passphrase(tmp_path):
    file = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", file], check=True)
    listed = subprocess.run(["ssh-keygen", "-l", "-f", file], capture_output=True, text=True)
    assert fingerprint(file) == listed.stdout.split()[1]


def test_changed_bytes_and_strangers_are_refused(tmp_path):
    mine, other = key(tmp_path, "mine"), key(tmp_path, "other")
    allowed = signers(tmp_path, me=mine)
    with pytest.raises(UserError, match="not of these bytes"):
        verify(DATA + b" ", sign(DATA, mine), allowed, "here")
    with pytest.raises(UserError, match="not of these bytes"):
        key_of(DATA + b" ", sign(DATA, mine))
    with pytest.raises(UserError, match="none of the allowed signers"):
        verify(DATA, sign(DATA, other), allowed)
    for broken in (b"", b"no signature", sign(DATA, mine)[:-60]):
        with pytest.raises(UserError, match="none of the allowed signers"):
            verify(DATA, broken, allowed)


def test_a_signature_for_another_purpose_does_not_count(tmp_path):
    mine = key(tmp_path, "mine")
    made = subprocess.run(["ssh-keygen", "-Y", "sign", "-n", "git", "-f", mine], input=DATA,
                          capture_output=True, check=True).stdout
    with pytest.raises(UserError, match="not of these bytes"):
        verify(DATA, made, signers(tmp_path, me=mine))


def test_a_key_that_cannot_sign_is_one_clear_error(tmp_path):
    (tmp_path / "text").write_text("no key\n")
    for file, said in ((tmp_path / "none", "no such key"), (tmp_path / "text", "cannot sign")):
        for use in (lambda file: sign(DATA, file), fingerprint):
            with pytest.raises(UserError, match=said):
                use(file)
    with pytest.raises(UserError, match="no file of allowed signers"):
        verify(DATA, sign(DATA, key(tmp_path, "mine")), tmp_path / "none")


def test_without_ssh_keygen_it_says_what_to_install(tmp_path, monkeypatch):
    mine = key(tmp_path, "mine")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="openssh-client"):
        sign(DATA, mine)
