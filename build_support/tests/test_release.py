"""What a release is checked for, on wheels made up for the purpose."""

import zipfile

import pytest

from build_support import pipeline, plugin, release, wheels
from build_support.toolchain import BuildError


def make(folder, name, version, licenses):
    """Write a wheel with metadata and licences and nothing else."""
    wheel = folder / f"{name}-{version}-py3-none-manylinux_2_28_x86_64.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.4\nName: {name.replace('_', '-')}\nVersion: {version}\n"
            "License-Expression: Apache-2.0\nRequires-Dist: numpy>=2\nRequires-Dist: tqdm; extra == 'examples'\n",
        )
        for text in licenses:
            archive.writestr(f"{info}/licenses/{text}", "text")
    return wheel


def test_what_is_missing_is_named(tmp_path):
    found = [make(tmp_path, "pjrt_xla_cpu", "0.1.0", ["LICENSE"])]
    assert list(release._problems(found)) == [
        "dist/ has no wheel of torch_go_xla; `make wheels` makes them",
        f"{found[0].name} carries tensorflow-cpu and no licence of it",
    ]


def test_the_changelog_has_an_entry_for_the_version(tmp_path, monkeypatch):
    assert not [text for text in release._problems([]) if "CHANGELOG" in text]
    monkeypatch.setattr(pipeline, "version", lambda: "99.1")
    assert "CHANGELOG.md has no entry for 99.1" in list(release._problems([]))


def test_the_bill_names_what_is_carried_and_what_is_asked_for(tmp_path):
    bill = release.bill_of_materials(make(tmp_path, "pjrt_xla_cpu", "0.1.0", []))
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/pjrt-xla-cpu@0.1.0"
    carried, asked = bill["components"]
    assert carried["purl"] == f"pkg:pypi/{plugin.requirement().replace('==', '@')}"
    assert asked["name"] == "numpy"


@pytest.mark.parametrize(
    ("tag", "fits"),
    [("manylinux_2_28_x86_64", True), ("manylinux_2_17_x86_64", True), ("manylinux_2_34_x86_64", False),
     ("linux_x86_64", False), ("manylinux_2_17_aarch64", False)],
)  # fmt: skip
def test_a_wheel_must_fit_the_platform_of_its_tag(tag, fits):
    assert wheels._fits(tag, wheels.PLATFORM) == fits
    assert wheels._fits("manylinux_2_17_aarch64", "manylinux_2_28_aarch64")


def test_a_wheel_that_is_too_large_or_needs_a_newer_system_is_refused(tmp_path, monkeypatch):
    wheel = make(tmp_path, "torch_go_xla", "0.1.0", [])
    monkeypatch.setattr(wheels, "DIST", tmp_path)
    shown = 'consistent with the following\nplatform tag: "manylinux_2_34_x86_64"'
    monkeypatch.setattr(wheels, "_run", lambda *_: shown)
    with pytest.raises(BuildError, match="does not fit"):
        wheels.audit()
    monkeypatch.setattr(wheels, "_run", lambda *_: shown.replace("34", "17"))
    wheels.audit()
    monkeypatch.setattr(wheels, "LARGEST", wheel.stat().st_size - 1)
    with pytest.raises(BuildError, match="want at most"):
        wheels.audit()
