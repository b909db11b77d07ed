"""govulncheck with a database of the test's own."""

import json
from pathlib import Path

import pytest

from build_support import vulnerabilities
from build_support.toolchain import BuildError

ID, WHEN, FIXED = "GO-2026-0001", "2026-01-01T00:00:00Z", "99.0.0"
CALLED = "./gocore/cache"


def database(at: Path, module: str, function: str) -> str:
    """Write a database that says a function of a module is vulnerable; returns its address."""
    affected = {
        "package": {"name": module, "ecosystem": "Go"},
        "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": FIXED}]}],
        "ecosystem_specific": {"imports": [{"path": module, "symbols": [function]}]},
    }
    files = {
        "index/db.json": {"modified": WHEN},
        "index/modules.json": [{"path": module, "vulns": [{"id": ID, "modified": WHEN, "fixed": FIXED}]}],
        "index/vulns.json": [{"id": ID, "modified": WHEN}],
        f"ID/{ID}.json": {"schema_version": "1.3.1", "id": ID, "modified": WHEN, "affected": [affected]},
    }
    for name, content in files.items():
        path = at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return at.as_uri()


@pytest.mark.longer
def test_a_vulnerable_function_that_is_called_fails_the_check(tmp_path, monkeypatch):
    monkeypatch.setenv("GOVULNDB", database(tmp_path, "github.com/google/uuid", "NewRandom"))
    with pytest.raises(BuildError, match=rf"{ID}: github\.com/google/uuid v1\.6\.0, NewRandom, called by .*/cache"):
        vulnerabilities.check(CALLED)


@pytest.mark.longer
def test_one_that_is_not_called_passes(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GOVULNDB", database(tmp_path, "github.com/google/uuid", "SetNodeID"))
    vulnerabilities.check(CALLED)
    assert capsys.readouterr().out == ""


@pytest.mark.longer
def test_a_database_that_is_not_there_is_said(monkeypatch, capsys):
    monkeypatch.delenv("GOVULNDB", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    vulnerabilities.check(CALLED)
    assert "not checked" in capsys.readouterr().out


@pytest.mark.longer
def test_a_package_that_is_not_there_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("GOVULNDB", database(tmp_path, "github.com/google/uuid", "NewRandom"))
    with pytest.raises(BuildError, match="no_such_package"):
        vulnerabilities.check("./no_such_package")
