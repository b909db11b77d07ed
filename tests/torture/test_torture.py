"""What runs the attacks tells survival from loss, and each attack works."""

from __future__ import annotations

import json

import pytest

from torture import UNBOUNDED, Counts, __main__, main
from torture._faults import unflushed


@pytest.mark.parametrize(("harms", "survived", "status"), [(["", ""], 2, 0), (["", "seed 4: a wrong value"], 1, 1)])
def test_counts(capsys, monkeypatch, harms: list[str], survived: int, status: int) -> None:
    def run(seed: int, seconds: float, most: int) -> Counts:
        counts = Counts(tries=3)
        for harm in harms:
            counts.judge(harm, "a kind", 0.5)
        return counts

    def ended(code: int) -> None:
        raise SystemExit(int(code))

    monkeypatch.setattr("os._exit", ended)
    monkeypatch.setattr("sys.argv", ["attack", "--seed", "4", "--minutes", "0.1"])
    with pytest.raises(SystemExit) as end:
        main(run)
    assert end.value.code == status
    out, err = capsys.readouterr()
    found = Counts.of("other lines\n" + out)
    assert found is not None and (found.tries, found.faults, found.survived) == (3, 2, survived)
    assert (found.kinds, found.slowest) == ({"a kind": 2}, {"a kind": 0.5})
    assert [f"lost: {h}" for h in harms if h] == err.splitlines()


LINE = 'print(\'{"tries": 2, "faults": %d, "survived": %d}\', flush=True)\n'
SURVIVES = '"""Does no harm."""\n' + LINE % (1, 1)
CRASHES = '"""Ends by a signal."""\nimport os\n' + LINE % (1, 1) + "os.abort()\n"
HANGS = '"""Does not end."""\nimport time\n' + LINE % (1, 1) + "time.sleep(600)\n"
IDLE = '"""Does nothing."""\n' + LINE % (0, 0)
SILENT = '"""Says nothing."""\n'


@pytest.mark.parametrize(
    ("program", "failed", "end"),
    [
        (SURVIVES, False, "exit status 0"),
        (CRASHES, True, "exit status -6"),
        (HANGS, True, "did not end"),
        (IDLE, True, "exit status 0"),
        (SILENT, True, "exit status 0"),
    ],
)
def test_ends(tmp_path, monkeypatch, capsys, program: str, failed: bool, end: str) -> None:
    folder = tmp_path / "tests" / "torture"
    folder.mkdir(parents=True)
    for name in ("__init__", "_part", "test_it"):
        (folder / f"{name}.py").write_text("")
    (folder / "blow.py").write_text(program)
    monkeypatch.setattr(__main__, "FOLDER", folder)
    monkeypatch.setattr(__main__, "GRACE", 5.0)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["torture", "--seed", "7", "--minutes", "0"])
    with pytest.raises(SystemExit) as exit_:
        __main__.main()
    assert exit_.value.code == failed
    *_, line = capsys.readouterr().out.splitlines()
    (result,) = json.loads(line)["attacks"]
    assert (result["failed"], result["end"], result["seed"]) == (failed, end, 7)
    assert f"| blow | 7 | {result['tries']} | {result['faults']} |" in __main__.table([result])


# A few tries of each attack, with a fixed seed. Whole runs are `make torture`'s.
SAMPLES = {"arguments": 120, "bundles": 80, "caches": 3, "exits": 4, "interrupts": 24, "jobs": 1, "saves": 50}


@pytest.mark.slow
@pytest.mark.parametrize("attack", sorted(SAMPLES))
def test_a_sample(attack: str) -> None:
    assert sorted(SAMPLES) == __main__.attacks() and max(SAMPLES.values()) < UNBOUNDED
    result = __main__.attack(attack, 1, 1, SAMPLES[attack])
    assert not result["failed"], result
    assert result["faults"] and result["survived"] == result["faults"]


WRITE, FSYNC = ("pwrite64", "/d/f.part", ""), ("fsync", "/d/f.part", "")
RENAME, FOLDER = ("rename", "/d/f.part", "/d/f"), ("fsync", "/d", "")
OTHER = [("mkdir", "/d/new", ""), ("open64", "/d/new/t", "")]
LOGS = {
    "in order": ([WRITE, FSYNC, RENAME, FOLDER], []),
    "the file": ([WRITE, RENAME, FOLDER], ["/d/f.part is not flushed when /d/f.part is renamed to /d/f"]),
    "the folder": ([WRITE, FSYNC, RENAME], ["/d is not flushed at the end"]),
    "a folder that the file needs": (
        [*OTHER, WRITE, FSYNC, RENAME, FOLDER, ("fsync", "/d/new", "")],
        ["/d/new is not flushed when /d/f.part is renamed to /d/f"],
    ),
}


@pytest.mark.parametrize("case", LOGS)
def test_what_is_not_flushed_is_found(case: str) -> None:
    log, want = LOGS[case]
    # What was not flushed in time may also be missing at the end.
    assert [line for line in unflushed(log) if "/d/f is not" not in line] == want
