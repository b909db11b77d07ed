"""Hostile: run by test_job_faults.py."""

import io
import os
import pickle

import torch
from raises import raises
from start import r

import torch_go_xla.core.xla_model as xm


class Evil:
    def __reduce__(self):
        return os.mkdir, (os.environ["MARK"],)


file = io.BytesIO()
torch.save([Evil()], file)
for text in (file.getvalue(), pickle.dumps(Evil()), b""):
    if r == 1:
        xm.rendezvous("evil", text)
    else:
        try:
            xm.mesh_reduce("evil", 1, lambda all: all)
        except (pickle.UnpicklingError, RuntimeError, EOFError):
            pass
        else:
            raise AssertionError("no error")
assert not os.path.exists(os.environ["MARK"])
raises(TypeError, "mesh_reduce('object') takes tensors", xm.mesh_reduce, "object", Evil(), sum)

import collections

import numpy as np

given = {
    "t": torch.arange(3.0).to("xla") + r,
    "b": torch.ones(2, dtype=torch.bfloat16),
    "l": [r, 0.5, True, None, "s", b"b", 2j],
    "n": np.float64(r),
    "i": np.int32(7),
    "a": np.arange(6).reshape(2, 3) + r,
    "f": np.ones(2, np.float16),
    "o": collections.OrderedDict(a=(1, {2})),
}
for i, got in enumerate(xm.mesh_reduce("kinds", given, lambda all: all)):
    assert got["t"].device.type == "cpu" and got["t"].tolist() == [i, 1 + i, 2 + i] and got["b"].tolist() == [1, 1]
    assert got["l"] == [i, 0.5, True, None, "s", b"b", 2j] and got["o"] == given["o"]
    assert type(got["n"]) is np.float64 and got["n"] == i and type(got["i"]) is np.int32 and got["i"] == 7
    assert (got["a"] == np.arange(6).reshape(2, 3) + i).all() and got["f"].dtype == np.float16
assert xm.mesh_reduce("mean", np.float64(r), np.mean) == 0.5
