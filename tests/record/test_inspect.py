"""tools/inspect of a released file: its release's record is beside it."""

from __future__ import annotations

import json

from apertus_image.commands.inspect import main
from click.testing import CliRunner


def told(file) -> dict:
    result = CliRunner().invoke(main, [str(file), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_released_file_tells_its_identity(there):
    data, said = there.record.data, told(there.files.sqsh)
    assert said["record"] == there.files.record.name
    assert (said["identity"], said["image"], f"sha256:{said['sha256']}", said["layers"]) == (
        data["identity"], data["image"]["config"], data["squashfs"]["sha256"],
        data["image"]["layers"])
    words = CliRunner().invoke(main, [str(there.files.sqsh)]).stdout
    assert f"identity:     {data['identity']}" in words


def test_a_record_that_is_not_its_own_is_not_believed(there):
    with there.files.sqsh.open("ab") as file:
        file.write(bytes(4096))
    said = told(there.files.sqsh)
    assert said["record"] == "of another file" and said["image"] is None


def test_a_damaged_record_or_none_leaves_the_rest(there):
    there.files.record.write_bytes(there.files.record.read_bytes() + b" ")
    said = told(there.files.sqsh)
    assert said["record"].startswith("damaged") and said["entries"] and "identity" not in said
    there.files.record.unlink()
    assert told(there.files.sqsh)["record"] == "none"


def test_a_record_is_one_clear_error(there):
    result = CliRunner().invoke(main, [str(there.files.record)])
    assert result.exit_code == 1 and ".sqsh beside it" in result.stderr and not result.stdout
