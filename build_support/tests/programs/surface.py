"""Calls a wrapped Go package in all ways, and prints what came of it."""

import json
import sys
import threading

sys.path.insert(0, sys.argv[1])
from surface_under_test import _goxla as raw
from surface_under_test import go, trial


def outcome(f, *args):
    try:
        return f(*args)
    except Exception as e:
        return [type(e).__name__, str(e).split("\n")[0]]


out = {
    "version": trial.Version(),
    "add": [trial.Add(2**62, -1), trial.Add(-2, -3)],
    "not": trial.Not(True),
    "half": trial.Half(-3.0),
    "join": [trial.Join("é", "b"), outcome(trial.Join, "a", "")],
    "check": [trial.Check(1), outcome(trial.Check, -1)],
    "reverse": [list(bytes(trial.Reverse(go.Slice_byte.from_bytes(b)))) for b in (b"abc", b"")],
    "void": [trial.Void(1), outcome(trial.Void, -1), trial.Nothing()],
    "panics": [outcome(trial.PanicInt), outcome(trial.PanicString), outcome(trial.PanicError), outcome(trial.Index, 7)],
    "types": [outcome(raw.trial_Add, "a", 1)[0], outcome(raw.trial_Add, 2**64, 1)[0]],
    "handles": [outcome(raw.Slice_int64_elem, 12345, 0)[0], outcome(trial.Reverse, go.Slice_int64([1]))[0]],
}


# A lost GIL would stop or kill these threads.
def work():
    for _ in range(200):
        outcome(trial.PanicString), outcome(trial.Check, -1), trial.Add(1, 2), outcome(trial.Void, -1)


threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096


def many():
    for _ in range(200000):
        trial.Check(1)


many()
before = resident()
many()
out["growth"] = resident() - before
print(json.dumps(out))
