"""Checks that dist/ can be released, and writes its bills of materials. Uploads nothing."""

from __future__ import annotations

import email
import email.message
import json
import re
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

from . import BUILD, ROOT, pipeline, plugin, wheels
from .toolchain import BuildError, find_go


def check() -> None:
    """Check version, changelog, metadata and licences of every wheel in dist/; BuildError names all that is wrong."""
    found = sorted(wheels.DIST.glob("*.whl"))
    wrong = list(_problems(found))
    for wheel in found:
        bill = wheel.with_suffix(".cdx.json")
        bill.write_text(json.dumps(bill_of_materials(wheel), indent=1) + "\n")
        print(f"{wheel.name}: {bill.name}", flush=True)
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *found], check=False)
    if done.returncode != 0:
        wrong.append("twine refuses the metadata")
    if wrong:
        raise BuildError("not ready for a release:\n  " + "\n  ".join(wrong))
    print(f"version {pipeline.version()} is ready")


def _problems(found: list[Path]) -> Iterator[str]:
    """Yield what is wrong, but for twine's opinion."""
    version = pipeline.version()
    if not re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M):
        yield f"CHANGELOG.md has no entry for {version}"
    names = {wheel.name.split("-")[0] for wheel in found}
    for name in {"torch_go_xla", "pjrt_xla_cpu"} - names:
        yield f"dist/ has no wheel of {name}; `make wheels` makes them"
    for wheel in found:
        stated = wheel.name.split("-")[1]
        if wheel.name.startswith("torch_go_xla") and stated != version:
            yield f"{wheel.name} is not of version {version}"
        carried = " ".join(_licenses(wheel))
        for component in _carried(wheel):
            if not re.search(rf"LICENSE\.{component['name'].rsplit('/', 1)[-1].removesuffix('-cpu')}\b", carried):
                yield f"{wheel.name} carries {component['name']} and no licence of it"


def _licenses(wheel: Path) -> list[str]:
    """Return the names of the licence files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if ".dist-info/licenses/" in name]


def _metadata(wheel: Path) -> email.message.Message:
    """Return the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def _carried(wheel: Path) -> list[dict[str, str]]:
    """Return name and version of what is linked into, or copied into, the libraries of a wheel."""
    if wheel.name.startswith("pjrt_xla_cpu"):
        name, _, version = plugin.requirement().partition("==")
        return [{"name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}]
    go = find_go()
    if go is None:
        raise BuildError("no Go on the PATH and none installed as a Python package")
    with zipfile.ZipFile(wheel) as archive:
        member = next(n for n in archive.namelist() if "/_goxla." in n and n.endswith(".so"))
        library = Path(archive.extract(member, BUILD / "release"))
    lines = subprocess.run([go, "version", "-m", library], capture_output=True, text=True, check=True).stdout
    library.unlink()
    version = lines.split()[1].removeprefix("go")
    out = [{"name": "go", "version": version, "purl": f"pkg:generic/go@{version}"}]
    for name, module in re.findall(r"^\tdep\t(\S+)\t(\S+)", lines, re.M):
        out.append({"name": name, "version": module, "purl": f"pkg:golang/{name}@{module}"})
    return out


def bill_of_materials(wheel: Path) -> dict[str, object]:
    """Return a CycloneDX bill of a wheel: what its libraries are made of, and the packages that it asks pip for."""
    metadata = _metadata(wheel)
    name, version = metadata["Name"], metadata["Version"]
    asked = [str(text) for text in metadata.get_all("Requires-Dist") or [] if "extra ==" not in str(text)]
    needed = [
        {"type": "library", "name": re.split(r"[<>=!~; ]", text)[0], "scope": "required", "description": text}
        for text in asked
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, wheel.name)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "licenses": [{"license": {"id": metadata["License-Expression"]}}],
            }
        },
        "components": [*({"type": "library", **part} for part in _carried(wheel)), *needed],
    }
