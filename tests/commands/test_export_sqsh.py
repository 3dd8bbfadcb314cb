"""tools/export-sqsh: where its file goes, without an export."""

from __future__ import annotations

import pytest
from apertus_image.commands.export_sqsh import main
from click.testing import CliRunner


@pytest.mark.parametrize(("output", "said"), [
    ("none", "no folder that is there, and no .sqsh"),  # not a file of that name
    ("none/", "no folder that is there, and no .sqsh"),
    ("none/x.sqsh", "the target's folder does not exist"),
    # These two will do, so that it is the image which is missed.
    ("there", "no such image"),
    ("there/x.sqsh", "no such image"),
])
def test_an_output_is_a_folder_that_is_there_or_a_sqsh(tmp_path, output, said):
    (tmp_path / "there").mkdir()
    result = CliRunner().invoke(main, [str(tmp_path / "nothing.json"), "-o",
                                       f"{tmp_path}/{output}"])
    assert result.exit_code == 1 and f"error: {said}" in result.stderr.replace("the output is ", "")
    assert "next:" in result.stderr and not result.stdout
    assert [each.name for each in tmp_path.rglob("*")] == ["there"]
