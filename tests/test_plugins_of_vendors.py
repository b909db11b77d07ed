"""The vendors' plugins on a machine without their devices: an error that says so, and a process that goes on.

`make plugins` installs them into an environment of its own and names it by TGX_VENDOR_PACKAGES.
"""

from __future__ import annotations

import os

import pytest

PACKAGES = os.environ.get("TGX_VENDOR_PACKAGES")


# The CPU plugin's libraries are in the process too: before the vendor's in one run, after them in the other.
@pytest.mark.parametrize("before", [False, True], ids=["alone", "after XLA:CPU"])
@pytest.mark.parametrize(
    ("device", "words"), [("CUDA", "No visible GPU devices"), ("TPU", "No jellyfish device found")]
)
def test_without_a_device(ok, device: str, words: str, before: bool) -> None:
    if PACKAGES is None:
        pytest.skip("TGX_VENDOR_PACKAGES does not say where the vendors' plugins are; `make plugins` does")
    out = ok("plugins_of_vendors/no_device.py", *["first"] * before, PJRT_DEVICE=device)
    print(out)
    first, second, *after = out.splitlines()
    assert words in first and "opens no device" in first and first == second
    assert after == ["[2.0, 2.0]"] * 2
