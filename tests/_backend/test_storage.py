"""Storages made, saved, loaded, pickled and copied."""

import copy
import io
import pickle

import pytest
import torch

from torch_go_xla._backend.core import native
from torch_go_xla._backend.storage import resize_storage

handle = native().fast.handle


def saved(obj):
    buffer = io.BytesIO()
    torch.save(obj, buffer)
    buffer.seek(0)
    return buffer


def test_save_and_load():
    x = torch.arange(6.0).view(2, 3)
    loaded = torch.load(saved(x.to("xla")))
    assert loaded.is_xla and torch.equal(loaded.cpu(), x)
    back = torch.load(saved(x.to("xla")), map_location="cpu")
    assert back.device.type == "cpu" and torch.equal(back, x)
    there = torch.load(saved(x), map_location="xla")
    assert str(there.device) == "xla:0" and torch.equal(there.cpu(), x)
    by_function = torch.load(saved(x), map_location=lambda storage, location: storage.cpu())
    assert torch.equal(by_function, x)
    to_meta = torch.load(saved(x.to("xla")), map_location="meta")
    assert to_meta.device.type == "meta"


@pytest.mark.parametrize("weights_only", [True, False])
def test_aliases_in_a_file_stay_aliases(weights_only):
    base = torch.arange(6.0).to("xla")
    data = {"base": base, "view": base[2:4], "transposed": base.view(2, 3).t(), "again": base}
    for location in (None, "cpu"):
        got = torch.load(saved(data), map_location=location, weights_only=weights_only)
        got["base"].add_(10)
        assert got["view"].tolist() == [12, 13] and got["again"].tolist() == got["base"].tolist()
        assert got["transposed"].stride() == (1, 3) and got["transposed"][2, 1].item() == 15
    assert base.tolist() == [0, 1, 2, 3, 4, 5]


def test_state_dicts():
    m = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to("xla")
    optimizer = torch.optim.Adam(m.parameters())
    m(torch.ones(4, 3, device="xla")).sum().backward()
    optimizer.step()
    file = saved({"model": m.state_dict(), "optimizer": optimizer.state_dict()})
    fresh = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to("xla")
    state = torch.load(file, weights_only=True)
    weight = fresh[0].weight
    fresh.load_state_dict(state["model"])
    assert fresh[0].weight is weight
    for k, v in m.state_dict().items():
        assert torch.equal(fresh.state_dict()[k].cpu(), v.cpu())
    torch.optim.Adam(fresh.parameters()).load_state_dict(state["optimizer"])


def test_a_file_of_a_device_that_is_not_there():
    file = saved(torch.ones(2, device="xla"))
    data = file.getvalue().replace(b"xla:0", b"xla:7")
    buffer = io.BytesIO()
    torch.save(torch.ones(2), buffer)
    with pytest.raises(RuntimeError, match=r"xla:7.*map_location"):
        torch.load(io.BytesIO(buffer.getvalue()), map_location="xla:7")
    assert data != file.getvalue()


def test_pickle_and_deepcopy():
    x = torch.arange(4.0).to("xla").requires_grad_()
    y = pickle.loads(pickle.dumps(x))
    assert y.is_xla and y.requires_grad and y.tolist() == [0, 1, 2, 3]
    z = copy.deepcopy(x)
    assert z.is_xla and z.requires_grad and handle(z) != handle(x) and z.tolist() == x.tolist()
    m = torch.nn.Linear(2, 2).to("xla")
    n = copy.deepcopy(m)
    assert n.weight is not m.weight and torch.equal(n.weight.cpu(), m.weight.cpu())
    p = pickle.loads(pickle.dumps(torch.nn.Parameter(torch.ones(2, device="xla"))))
    assert isinstance(p, torch.nn.Parameter) and p.is_xla


def test_conjugated_tensors_are_saved_with_their_bit():
    z = torch.tensor([1 + 2j]).to("xla").conj()
    got = torch.load(saved(z))
    assert got.tolist() == [1 - 2j]


def test_untyped_storages():
    s = torch.UntypedStorage(8, device="xla")
    assert s.nbytes() == 8 and s.device == torch.device("xla:0")
    assert torch.UntypedStorage(device="xla").nbytes() == 0
    assert torch.UntypedStorage([1, 2, 3], device="xla").cpu().tolist() == [1, 2, 3]
    assert torch.UntypedStorage(4).device.type == "cpu" and torch.UntypedStorage([1, 2]).tolist() == [1, 2]
    assert torch.UntypedStorage(4, device="cpu").nbytes() == 4
    clone = torch.UntypedStorage([5, 6], device="xla").clone()
    assert clone.cpu().tolist() == [5, 6]
    x = torch.tensor([1.0, 2.0]).to("xla")
    assert x.untyped_storage().cpu().nbytes() == 8
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.UntypedStorage(4, device="xla:55")


def test_cpu_storages_resize_as_before():
    s = torch.UntypedStorage(4)
    assert s.resize_(16) is s and s.nbytes() == 16


def test_a_storage_cannot_be_resized_twice_at_once():
    s = torch.UntypedStorage(8, device="xla")
    with pytest.raises(NotImplementedError):
        native().fast.set_storage_nbytes(s._cdata, 99, 4)
    resize_storage(s, 8)
    assert s.nbytes() == 8
    with pytest.raises(NotImplementedError):
        resize_storage(s, -1)
    assert s.nbytes() == 8
