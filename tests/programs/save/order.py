"""The plugin's calls, in their order, as values of two devices are read and saved."""

import io
import sys

import null_device
import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm

null = null_device.use(sys.argv[1], devices=2, delay_us=2000)


TRANSFERS = "Buffer_ToHostBuffer", "Buffer_UnsafePointer"


def check(calls):
    runs = [i for i, c in enumerate(calls) if c == "LoadedExecutable_Execute"]
    transfers = [i for i, c in enumerate(calls) if c in TRANSFERS]
    assert len(runs) == 2, f"{len(runs)} programs on two devices"
    assert runs[-1] < transfers[0], "a transfer before the last program"
    asked = [i for i, c in enumerate(calls) if c in ("Buffer_ReadyEvent", *TRANSFERS)]
    waits = sum(c in ("Event_Await", "Event_OnReady") for c in calls[: asked[0]])
    assert waits >= 2, f"{waits} waits for two devices"


a, b = torch.tensor([1.0, 2.0]).to("xla:0"), torch.tensor([3.0]).to("xla:1")


def case():
    c, d, alias = a + a, b * b, a.detach()
    alias.add_(1)
    return [a, alias, c, torch._neg_view(c), d]


def save(tensors):
    file = io.BytesIO()
    xm.save(tensors, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def one_by_one(tensors):
    return [t.cpu() for t in tensors]


values = []
for read in (torch_go_xla._XLAC._xla_get_cpu_tensors, save, one_by_one):
    torch_go_xla.sync(wait=True)
    tensors = case()
    null.start_trace()
    got = read(tensors)
    calls = null.stop_trace()
    assert [t.tolist() for t in got[:3]] == [got[1].tolist(), got[0].tolist(), got[2].tolist()]
    if read is not one_by_one:
        check(calls)
        continue
    try:
        check(calls)
    except AssertionError as e:
        print(e)
