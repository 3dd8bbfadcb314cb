"""What tools/edf writes: the artefact by its identity, the facts' values, the same every time."""

from __future__ import annotations

import tomllib

import pytest
from apertus_image.commands.edf import main
from apertus_image.edf.lint import lint
from apertus_image.edf.network import SETTINGS
from apertus_image.edf.write import WORKLOADS, Choices, artefact, compose
from apertus_image.errors import UserError
from click.testing import CliRunner

DIGEST = "sha256:" + "a" * 64
REFERENCE = f"reg.example:5000#apertus/image@{DIGEST}"


@pytest.mark.parametrize("workload", WORKLOADS)
def test_what_is_written_lints_clean(tmp_path, workload):
    file = tmp_path / "x.toml"
    file.write_text(compose(REFERENCE, workload))
    # Whether the image holds libcudart.so, only the image tells.
    assert {each.severity for each in lint(file, {})} <= {"note"}


def test_one_node_asks_for_no_network():
    data = tomllib.loads(compose(REFERENCE, "one-node"))
    assert data["image"] == REFERENCE and data["entrypoint"] is False and data["writable"] is True
    assert "env" not in data and "annotations" not in data


def test_several_nodes_have_every_setting_and_the_hook():
    text = compose(REFERENCE, "multi-node")
    data = tomllib.loads(text)
    assert data["env"] == {name: value for name, (value, _) in SETTINGS.items()}
    hook = data["annotations"]["com"]["hooks"]["aws_ofi_nccl"]
    assert hook == {"enabled": "true"}  # no variant: artifact netstack ignores it
    assert text == compose(REFERENCE, "multi-node")


def test_every_value_has_its_reason():
    lines = compose(REFERENCE, "multi-node").splitlines()
    for number, line in enumerate(lines):
        if " = " in line and not line.startswith(("#", " ")):
            assert lines[number - 1].startswith("# "), line


def test_a_site_chooses():
    data = tomllib.loads(compose(REFERENCE, "one-node", Choices(("/a:/a:ro",), "/w", False)))
    assert (data["mounts"], data["workdir"], data["writable"]) == (["/a:/a:ro"], "/w", False)


@pytest.mark.parametrize(("text", "written"), [
    (REFERENCE, REFERENCE),
    (f"docker://{REFERENCE}", REFERENCE),
    (f"reg.example:5000/apertus/image@{DIGEST}", REFERENCE),
    (f"library/x@{DIGEST}", f"library/x@{DIGEST}"),
])
def test_references_are_by_digest_and_their_registry_ends_with_a_hash(text, written):
    assert artefact(text) == written


@pytest.mark.parametrize("text", ["reg#a/b:v1", "reg#a/b", "/no/such.sqsh", "no.sqsh"])
def test_what_is_no_artefact_is_an_error(text):
    with pytest.raises(UserError):
        artefact(text)


def test_a_file_that_is_no_image_is_an_error(tmp_path):
    for name in ("x.record.json", "x.sqsh"):
        (tmp_path / name).write_text("{}\n")
        with pytest.raises(UserError, match="not a SquashFS"):
            artefact(str(tmp_path / name))
    (tmp_path / "x.sqsh").write_bytes(b"hsqs and more")
    assert artefact(str(tmp_path / "x.sqsh")) == str(tmp_path / "x.sqsh")


@pytest.mark.parametrize(("choices", "said"), [
    (Choices(("/x",)), "a mount cannot be used\n  where: +/x"),
    (Choices(("/x:y",)), "destination 'y' is not absolute"),
    (Choices(("/x:/y:RO",)), "no list of flags"),
    (Choices(workdir="rel"), "workdir is not absolute"),
    (Choices(("/x", "y:/y"), "rel"), "3 faults"),
])
def test_what_the_engine_would_refuse_is_not_written(choices, said):
    with pytest.raises(UserError, match=said):
        compose(REFERENCE, "one-node", choices)


def test_a_variable_of_the_cluster_may_stand_in_a_choice():
    text = compose(REFERENCE, "one-node", Choices(("${NOT_HERE}:/x", "/home:/home"), "$NOT_HERE"))
    assert tomllib.loads(text)["mounts"] == ["${NOT_HERE}:/x", "/home:/home"]


def test_the_file_is_named_wholly_and_not_replaced(tmp_path):
    image, out = tmp_path / "x-0123456789ab.sqsh", tmp_path / "x.toml"
    image.write_bytes(b"hsqs")

    def run(*more: str):
        return CliRunner().invoke(main, ["write", str(image), "-o", str(out), *more])

    assert run("--workload", "one-node").output == f"{out}\n"
    assert tomllib.loads(out.read_text())["image"] == str(image)
    before = out.read_bytes()
    refused = run("--workload", "multi-node")
    assert refused.exit_code == 1 and "--force" in refused.output and out.read_bytes() == before
    assert run("--workload", "one-node").exit_code == 0
    assert run("--workload", "multi-node", "--force").exit_code == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == [image.name, "x.toml"]


@pytest.mark.parametrize(("text", "options", "code"), [
    (f'image = "{REFERENCE}"\nentrypoint = false\n', ["--strict"], 0),
    (f'image = "{REFERENCE}"\n', [], 0),
    (f'image = "{REFERENCE}"\n', ["--strict"], 1),
    (f'image = "{REFERENCE}"\noops = 1\n', [], 1),
])
def test_exit_codes_of_the_lint(tmp_path, text, options, code):
    (tmp_path / "x.toml").write_text(text)
    result = CliRunner(env={"EDF_IMAGESTORE": "void"}).invoke(
        main, ["lint", str(tmp_path / "x.toml"), *options])
    assert result.exit_code == code, result.output
