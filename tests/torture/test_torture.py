"""What runs the attacks tells survival from loss."""

from __future__ import annotations

import pytest

from torture import Counts, __main__, main


@pytest.mark.parametrize(
    ("harms", "summary", "status"),
    [
        (["", ""], "tries 3 faults 2 survived 2", 0),
        (["", "seed 4: a wrong value"], "tries 3 faults 2 survived 1", 1),
    ],
)
def test_counts(capsys, monkeypatch, harms: list[str], summary: str, status: int) -> None:
    def run(seed: int, seconds: float) -> Counts:
        counts = Counts(tries=3)
        for harm in harms:
            counts.judge(harm)
        return counts

    monkeypatch.setattr("sys.argv", ["attack", "--seed", "4", "--minutes", "0.1"])
    with pytest.raises(SystemExit) as end:
        main(run)
    assert end.value.code == status
    out, err = capsys.readouterr()
    assert out.strip() == summary and [f"lost: {h}" for h in harms if h] == err.splitlines()


SURVIVES = '"""Does no harm."""\nprint("tries 2 faults 1 survived 1")\n'
CRASHES = '"""Ends by a signal."""\nimport os\nprint("tries 2 faults 1 survived 1", flush=True)\nos.abort()\n'
HANGS = '"""Does not end."""\nimport time\nprint("tries 2 faults 1 survived 1", flush=True)\ntime.sleep(600)\n'
IDLE = '"""Does nothing."""\nprint("tries 2 faults 0 survived 0")\n'


@pytest.mark.parametrize(
    ("program", "lost", "end"),
    [
        (SURVIVES, False, "exit status 0"),
        (CRASHES, True, "exit status -6"),
        (HANGS, True, "did not end"),
        (IDLE, True, "exit status 0"),
    ],
)
def test_ends(tmp_path, monkeypatch, program: str, lost: bool, end: str) -> None:
    folder = tmp_path / "tests" / "torture"
    folder.mkdir(parents=True)
    for name in ("__init__", "_part", "test_it"):
        (folder / f"{name}.py").write_text("")
    (folder / "blow.py").write_text(program)
    monkeypatch.setattr(__main__, "FOLDER", folder)
    monkeypatch.setattr(__main__, "GRACE", 5.0)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert __main__.attacks() == ["blow"]
    result = __main__.attack("blow", 7, 0)
    assert (result["lost"], result["end"], result["seed"]) == (lost, end, 7)
    text = __main__.page([result])
    assert f"| blow | {__main__.summary('blow')} |" in text and f"| blow | 7 | 2 | {result['faults']} |" in text
