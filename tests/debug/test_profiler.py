"""A recording shows what each step did, nested rightly, in a form that the viewers accept."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_go_xla
import torch_go_xla.debug.profiler as xp

Events = list[dict[str, Any]]


def read(path: Path) -> Events:
    """Return the events of a file, each checked against the Trace Event Format."""
    trace = json.loads(path.read_text())
    assert trace["otherData"] == {"events_dropped": 0}
    for e in trace["traceEvents"]:
        assert isinstance(e["name"], str) and e["name"] and isinstance(e["pid"], int) and isinstance(e["tid"], int)
        assert e["ph"] in "XMC" and e["ts"] >= 0
        assert ("dur" in e) == (e["ph"] == "X") and e.get("dur", 0) >= 0
        assert e["ph"] != "C" or all(isinstance(v, int) for v in e["args"].values())
    return list(trace["traceEvents"])


def spans(events: Events, name: str) -> Events:
    return [e for e in events if e["ph"] == "X" and e["name"] == name]


def assert_nested(events: Events) -> None:
    """Two spans of a row are apart, or one holds the other."""
    rows: dict[tuple[int, int], Events] = {}
    for e in events:
        if e["ph"] == "X":
            rows.setdefault((e["pid"], e["tid"]), []).append(e)
    for row in rows.values():
        open_until: list[float] = []
        for e in row:  # in the order of the file, which is that of their starts
            while open_until and open_until[-1] <= e["ts"] + 1e-4:  # times are in µs, of whole ns
                open_until.pop()
            end = e["ts"] + e["dur"]
            assert not open_until or end <= open_until[-1] + 1e-3, (e, open_until)
            open_until.append(end)


@pytest.mark.compiled
def test_three_steps(tmp_path: Path) -> None:
    weight = torch.randn(37, 41).to("xla").requires_grad_()
    batches = torch.randn(3, 29, 37)
    torch_go_xla.sync(wait=True)
    with xp.trace(tmp_path / "steps.json"):
        for i, batch in enumerate(batches):
            with xp.StepTrace("train", step_num=i):
                loss = (batch.to("xla") @ weight).tanh().square().mean()
                loss.backward()
                with torch.no_grad():
                    weight -= 0.1 * weight.grad
                weight.grad = None
        loss.item()
    events = read(tmp_path / "steps.json")
    assert_nested(events)
    for i in range(3):
        (step,) = spans(events, f"step {i}")
        (user,) = spans(events, f"train step_num={i}")
        for name in ("trace", "plan", "transfer to device"):
            found = [e for e in spans(events, name) if e["args"]["step"] == i]
            assert found, (name, i)
            for e in found:
                assert step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= step["ts"] + step["dur"] + 1e-3
                assert e["tid"] == user["tid"]
        assert [e for e in spans(events, "execute") if e["args"]["step"] == i], i
    for name in ("lower", "compile"):
        assert [e["args"]["step"] for e in spans(events, name)] == [0]
    assert len(spans(events, "launch")) == len(spans(events, "execute")) == 3
    assert {e["pid"] for e in spans(events, "execute")} == {2}
    assert spans(events, "transfer from device")
    counters = {e["name"]: e["args"] for e in events if e["ph"] == "C"}
    assert counters["ops per step"]["ops"] >= 5 and counters["bytes in use"]["bytes"] >= weight.nbytes
    names = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert {"host", "devices", "steps", "main thread", "xla:0"} <= names


def test_threads_have_rows_of_their_own(tmp_path: Path) -> None:
    x = torch.ones(5, device="xla")

    @xp.trace_me("work")
    def work() -> None:
        (x + 1).cpu()

    xp.start_trace(tmp_path)
    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    work()
    for t in threads:
        t.join()
    path = xp.stop_trace()
    assert path.parent == tmp_path and path.name.endswith(".trace.json")
    rows = {e["tid"] for e in spans(read(path), "work")}
    assert 2 <= len(rows) <= 3  # a thread may take the number of one that has ended


def test_nothing_is_recorded_unless_asked(tmp_path: Path) -> None:
    with xp.Trace("before"):
        torch_go_xla.sync()
    with xp.trace(tmp_path / "a.json"):
        pass
    assert {e["name"] for e in read(tmp_path / "a.json") if e["ph"] != "M"} <= {"wait"}


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no recording runs"):
        xp.stop_trace()
    with pytest.raises(RuntimeError, match="no recording from the profiler server at localhost:1"):
        xp.trace("localhost:1", str(tmp_path), duration_ms=1, num_tracing_attempts=1)
    with xp.trace(tmp_path / "a.json"), pytest.raises(RuntimeError, match="already"):
        xp.start_trace(tmp_path)
    with pytest.raises(ZeroDivisionError), xp.trace(tmp_path / "b.json"), xp.StepTrace("fails"):
        _ = 1 / 0
    assert spans(read(tmp_path / "b.json"), "fails")


def test_a_server_records_for_another(tmp_path: Path) -> None:
    server = xp.start_server(0)
    assert server is not None
    thread = xp.trace_detached(f"localhost:{server.port}", str(tmp_path), duration_ms=1500)
    while thread.is_alive():
        with xp.Trace("asked for"):
            torch_go_xla.sync()
        time.sleep(0.05)
    (file,) = tmp_path.glob("*.trace.json")
    assert spans(read(file), "asked for")
    with xp.trace(tmp_path / "own.json"), pytest.raises(RuntimeError, match="409"):
        xp.trace(f"localhost:{server.port}", str(tmp_path), duration_ms=1, num_tracing_attempts=1)
    for query in ("trace", "trace?duration_ms=-1", "trace?duration_ms=9999999999", "etc/passwd"):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/{query}", timeout=30)
    server.close()
