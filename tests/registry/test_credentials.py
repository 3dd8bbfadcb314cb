"""Where credentials are found, and that no message shows one."""

from __future__ import annotations

import base64
import json

import pytest
from apertus_image.errors import UserError
from apertus_image.registry.credentials import Credentials

HOST = "reg.example:5000"


def entry(user, password="pw"):
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture
def home(tmp_path):
    """Writes a file of credentials below a home of its own."""

    def write(name, content):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    return write


def find(tmp_path, host=HOST, repository="", **more):
    return Credentials(HOST, {"HOME": str(tmp_path), **more}).find(host, repository)


def helper(tmp_path, name, script):
    program = tmp_path / "bin" / f"docker-credential-{name}"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    return f"{program.parent}:/usr/bin:/bin"


def test_none(tmp_path):
    assert find(tmp_path) is None


@pytest.mark.parametrize("key", [HOST, f"https://{HOST}", f"https://{HOST}/v1/", f"{HOST}/"])
def test_docker_s_file(tmp_path, home, key):
    home(".docker/config.json", {"auths": {key: entry("anna", "p:w"), "other": entry("bob")}})
    found = find(tmp_path)
    assert (found.user, found.password) == ("anna", "p:w")


def test_docker_s_folder_is_settable(tmp_path, home):
    home("elsewhere/config.json", {"auths": {HOST: entry("anna")}})
    assert find(tmp_path, DOCKER_CONFIG=str(tmp_path / "elsewhere")).user == "anna"


@pytest.mark.parametrize(("file", "variable", "value"), [
    ("run/containers/auth.json", "XDG_RUNTIME_DIR", "run"),
    ("conf/containers/auth.json", "XDG_CONFIG_HOME", "conf"),
    (".config/containers/auth.json", "X", ""), ("mine.json", "REGISTRY_AUTH_FILE", "mine.json")])
def test_podman_s_files_come_before_docker_s(tmp_path, home, file, variable, value):
    home(".docker/config.json", {"auths": {HOST: entry("docker")}})
    home(file, {"auths": {HOST: entry("podman")}})
    assert find(tmp_path, **{variable: str(tmp_path / value)}).user == "podman"


def test_the_most_particular_key_counts(tmp_path, home):
    home(".config/containers/auth.json", {"auths": {
        HOST: entry("all"), f"{HOST}/team": entry("team"), f"{HOST}/team/a": entry("a")}})
    assert find(tmp_path, repository="team/a").user == "a"
    assert find(tmp_path, repository="team/b").user == "team"
    assert find(tmp_path, repository="teams").user == "all"


def test_the_environment_comes_first_and_for_its_registry_alone(tmp_path, home):
    home(".docker/config.json", {"auths": {HOST: entry("docker")}})
    given = {"APERTUS_REGISTRY_USER": "env", "APERTUS_REGISTRY_PASSWORD": "pw"}
    assert find(tmp_path, **given).user == "env"
    assert find(tmp_path, "other.example", **given) is None
    assert find(tmp_path, APERTUS_REGISTRY_TOKEN="tok").token == "tok"
    with pytest.raises(UserError, match="half a credential"):
        find(tmp_path, APERTUS_REGISTRY_USER="env")


@pytest.mark.parametrize("where", [{"credHelpers": {HOST: "x"}}, {"credsStore": "x"}])
def test_helpers_are_asked(tmp_path, home, where):
    home(".docker/config.json", {"auths": {HOST: {}}, **where})
    path = helper(tmp_path, "x", f'[ "$(cat)" = {HOST} ] && [ $1 = get ] || exit 1\n'
                  'echo \'{"ServerURL": "", "Username": "anna", "Secret": "hush"}\'')
    assert (found := find(tmp_path, PATH=path)).password == "hush" and found.user == "anna"
    path = helper(tmp_path, "x", 'echo \'{"Username": "<token>", "Secret": "hush"}\'')
    assert find(tmp_path, PATH=path).identity == "hush"
    path = helper(tmp_path, "x", "echo credentials not found in native keychain; exit 1")
    assert find(tmp_path, PATH=path) is None


def test_a_helper_that_fails_is_told_without_its_output(tmp_path, home):
    home(".docker/config.json", {"credHelpers": {HOST: "x"}})
    path = helper(tmp_path, "x", "echo hush; echo hush >&2; exit 3")
    with pytest.raises(UserError, match="docker-credential-x get") as error:
        find(tmp_path, PATH=path)
    assert "hush" not in str(error.value) and "exit code 3" in str(error.value)
    with pytest.raises(UserError, match="cannot be run"):
        find(tmp_path, PATH="/nowhere")


@pytest.mark.parametrize("content", ["{", "[]", '{"auths": [1]}', '{"auths": {"reg.example:5000": '
                                     '{"auth": "hush!"}}}'])
def test_a_malformed_file_is_told_without_its_content(tmp_path, home, content):
    file = home(".docker/config.json", content)
    with pytest.raises(UserError) as error:
        find(tmp_path)
    assert str(file) in str(error.value) and "hush" not in str(error.value)


def test_no_repr_holds_a_secret(tmp_path, home):
    home(".docker/config.json", {"auths": {HOST: entry("anna", "hush")}})
    assert "hush" not in repr(find(tmp_path)) and "anna" in repr(find(tmp_path))


def test_identity_tokens(tmp_path, home):
    home(".docker/config.json", {"auths": {HOST: {"identitytoken": "hush"}}})
    assert find(tmp_path).identity == "hush"
