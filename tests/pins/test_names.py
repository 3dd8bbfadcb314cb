"""Names as the store allows them."""

from __future__ import annotations

import pytest
from apertus_image.pins.names import store_name


@pytest.mark.parametrize(
    ("name", "expected"),  # trap 3, case 29
    [("libpcre2-8-0_10.46-1~deb13u3_amd64.deb", "libpcre2-8-0_10.46-1_deb13u3_amd64.deb"),
     ("zlib1g_1%3a1.3_amd64.deb", "zlib1g_1_3a1.3_amd64.deb"),
     ("torch-2.11.0+cu130-cp313-cp313-linux_x86_64.whl",
      "torch-2.11.0+cu130-cp313-cp313-linux_x86_64.whl"),
     (".hidden", "_hidden")],
)
def test_store_names(name, expected):
    assert store_name(name) == expected
