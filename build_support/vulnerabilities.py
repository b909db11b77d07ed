"""Checks the Go modules for known vulnerabilities: ``python -m build_support vulns [PACKAGE...]``.

govulncheck asks Go's own database, or the one whose address GOVULNDB is. Where it cannot be reached, the check says so
and passes.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .toolchain import BuildError, find_go

__all__ = ["check", "reached"]

ROOT = Path(__file__).parents[1]
UNREACHED = "govulncheck: fetching vulnerabilities:"


def _messages(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a stream of JSON."""
    decoder, at = json.JSONDecoder(), 0
    text = text.strip()
    while at < len(text):
        message, at = decoder.raw_decode(text, at)
        while at < len(text) and text[at].isspace():
            at += 1
        yield message


def reached(report: str) -> list[str]:
    """Return a line for each vulnerable function that a report in JSON says is called."""
    found: dict[tuple[str, str], str] = {}
    for message in _messages(report):
        finding = message.get("finding", {})
        frames = finding.get("trace", [])
        if frames and "function" in frames[0]:
            of, by = frames[0], frames[-1]
            fixed = finding.get("fixed_version", "")
            line = f"{finding['osv']}: {of['module']} {of['version']}, {of['function']}, called by {by['package']}"
            found.setdefault((finding["osv"], of["function"]), line + (f"; fixed in {fixed}" if fixed else ""))
    return list(found.values())


def check(*packages: str) -> None:
    """Raise BuildError if a package calls a vulnerable function; all packages by default."""
    go = find_go()
    if go is None:
        raise BuildError("no Go on the PATH and none installed as a Python package")
    command = [str(go), "tool", "govulncheck", "-format", "json"]
    if database := os.environ.get("GOVULNDB"):
        command += ["-db", database]
    command += packages or ("./...",)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if UNREACHED in done.stderr:
        print("govulncheck: not checked, as the database cannot be reached; GOVULNDB names another")
        return
    if done.returncode:
        raise BuildError(f"govulncheck failed:\n{done.stderr}")
    if lines := reached(done.stdout):
        raise BuildError("\n".join(["vulnerable functions are called:", *lines]))
