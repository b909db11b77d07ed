"""States saved as folders."""

from __future__ import annotations

import os
import pickle
import stat
from collections import OrderedDict
from pathlib import Path

import pytest
import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.serialization as xser
from torch_go_xla.utils import tensor_file, whole_file


def state() -> dict[str, object]:
    weight = torch.nn.Parameter(torch.arange(12.0, device="xla").view(3, 4))
    frozen = torch.nn.Parameter(torch.ones(2, device="xla") * 3, requires_grad=False)
    raw = torch.arange(10, dtype=torch.uint8, device="xla")
    return {
        "model": OrderedDict(weight=weight, tied=weight, row=weight.detach()[1], turned=weight.detach().t()),
        "frozen": frozen,
        "mixed": [raw, raw[:8].view(torch.float32)],
        "complex": torch.tensor([1 + 2j]).to("xla").conj(),
        "empty": torch.empty(0, 3, device="xla"),
        "host": (torch.ones(2), "text", 3, None),
    }


@pytest.mark.parametrize("location", [None, "xla", {"cpu": "xla"}])
def test_what_is_saved_is_loaded(location: object, tmp_path: Path) -> None:
    saved = state()
    xser.save(saved, tmp_path / "a.pt")
    loaded = xser.load(tmp_path / "a.pt", map_location=location)
    flat = [torch.utils._pytree.tree_flatten(d) for d in (saved, loaded)]
    assert flat[0][1] == flat[1][1]
    for a, b in zip(flat[0][0], flat[1][0], strict=True):
        if not isinstance(a, torch.Tensor):
            assert a == b
            continue
        assert (a.dtype, a.shape, a.stride(), type(a)) == (b.dtype, b.shape, b.stride(), type(b))
        assert a.requires_grad == b.requires_grad and torch.equal(a.cpu(), b.cpu())
        assert b.device.type == ("xla" if location else "cpu")
    model = loaded["model"]
    with torch.no_grad():
        model["weight"].zero_()
    torch_go_xla.sync()
    assert not any(model[name].any() for name in ("tied", "row", "turned"))
    loaded["mixed"][0].fill_(0)
    assert not loaded["mixed"][1].any()


def test_a_storage_is_one_file_of_torch(tmp_path: Path) -> None:
    x = torch.arange(6.0, device="xla")
    xser.save([x, x[2:], x * 2], tmp_path / "a.pt")
    (folder,) = (tmp_path / "a.pt.tensors").iterdir()
    files = sorted(folder.iterdir())
    assert [f.name for f in files] == ["tensor_0.pt", "tensor_1.pt"]
    assert torch.load(files[1], weights_only=True).tolist() == [0, 2, 4, 6, 8, 10]


def test_a_failed_save_leaves_the_old_state(unsavable, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    xser.save([torch.ones(2, device="xla")], path)
    before = sorted(os.listdir(tmp_path / "a.pt.tensors"))
    for data, error in unsavable:
        with pytest.raises(error):
            xser.save(data, path)
        assert xser.load(path)[0].tolist() == [1, 1] and sorted(os.listdir(tmp_path / "a.pt.tensors")) == before


def test_a_killed_save_leaves_the_old_state_and_the_next_cleans_up(python, tmp_path: Path) -> None:
    path, root = tmp_path / "a.pt", tmp_path / "a.pt.tensors"
    xser.save([torch.ones(2, device="xla")], path)
    assert python("serialization/killed.py", path).code == -9
    assert len(list(root.iterdir())) == 2 and xser.load(path)[0].tolist() == [1, 1]
    with xser._new_generation(str(root), str(path)) as other:  # another process is saving
        xser.save([torch.full((2,), 5.0, device="xla")], path)
        assert len(list(root.iterdir())) == 2 and (root / other).exists()
    assert xser.load(path)[0].tolist() == [5, 5]


def test_a_state_that_is_being_loaded_is_not_removed(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.pt"
    xser.save([torch.ones(2, device="xla"), torch.ones(3, device="xla")], path)
    read = xser._read

    def slowly(data: object, folder: str, map_location: object) -> object:
        xser.save([torch.zeros(1, device="xla")], path)
        return read(data, folder, map_location)

    monkeypatch.setattr(xser, "_read", slowly)
    assert [t.tolist() for t in xser.load(path)] == [[1, 1], [1, 1, 1]]
    monkeypatch.undo()
    assert [t.tolist() for t in xser.load(path)] == [[0]]
    with pytest.raises(FileNotFoundError):
        (tmp_path / "a.pt.tensors").rename(tmp_path / "elsewhere")
        xser.load(path)


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("the file ran code",)


def test_hostile_files_are_refused(tmp_path: Path, capsys) -> None:
    path = tmp_path / "a.pt"
    xser.save({"x": torch.ones(1, device="xla"), "y": Hostile()}, path)
    with pytest.raises(pickle.UnpicklingError):
        xser.load(path)
    xser.save([torch.ones(1, device="xla")], path)
    (file,) = (tmp_path / "a.pt.tensors").glob("*/tensor_0.pt")
    torch.save(Hostile(), file)
    with pytest.raises(pickle.UnpicklingError):
        xser.load(path)
    reference = xser.TensorReference("../../../x", torch.float32, (1,), (1,), 0, False, False)
    generation = file.parent.name
    for index in ({"generation": "../..", "data": []}, [1], {"generation": generation, "data": [reference]}):
        torch.save(index, path)
        with pytest.raises(ValueError):
            xser.load(path)
    torch.save(torch.ones(1), file)
    beyond = xser.TensorReference(0, torch.float32, (100,), (1,), 0, False, False)
    torch.save({"generation": generation, "data": [beyond]}, path)
    for location in ("cpu", "xla"):
        try:
            x = xser.load(path, location)[0]
        except RuntimeError:
            continue
        assert x.untyped_storage().nbytes() >= 400, "a view reaches past the end of its storage"
    assert capsys.readouterr().out == ""


def test_only_the_master_writes(tmp_path: Path, monkeypatch) -> None:
    x = torch.ones(2, device="xla") + 1
    monkeypatch.setattr(xm, "is_master_ordinal", lambda local=True: False)
    xser.save([x], tmp_path / "a.pt")
    assert not os.listdir(tmp_path) and torch_go_xla._XLAC._describe(x)["state"] == "device"


def test_the_host_needs_memory_for_one_storage_only(ok, tmp_path: Path) -> None:
    """160 MB in 20 tensors, which are the device's memory once they are loaded."""
    saved, loaded = map(int, ok("serialization/memory.py", tmp_path / "a.pt").split())
    assert saved <= 16 and loaded <= 160 + 32, (saved, loaded)


@pytest.mark.parametrize("moment", ["after the rename", "in the flush of the folder", "in the clean-up"])
def test_from_the_rename_on_the_new_state_is_there(moment: str, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.pt"
    xser.save([torch.ones(2, device="xla")], path)
    replace, flush = os.replace, whole_file.flush

    def renamed(source: str, to: str) -> None:
        replace(source, to)
        raise KeyboardInterrupt

    def flushed(name: str) -> None:
        flush(name)
        if name == str(tmp_path) and xser._named(str(path)) != old:
            raise OSError("input/output error")

    def cleaned(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    old = xser._named(str(path))
    stop = {
        "after the rename": (os, "replace", renamed),
        "in the flush of the folder": (whole_file, "flush", flushed),
        "in the clean-up": (xser.shutil, "rmtree", cleaned),
    }
    monkeypatch.setattr(*stop[moment])
    with pytest.raises((KeyboardInterrupt, OSError)):
        xser.save([torch.zeros(3, device="xla")], path)
    monkeypatch.undo()
    assert xser.load(path)[0].tolist() == [0, 0, 0]
    xser.save([torch.ones(1, device="xla")], path)
    assert xser.load(path)[0].tolist() == [1] and len(os.listdir(tmp_path / "a.pt.tensors")) == 1


def test_a_clean_up_that_fails_does_not_fail_the_save(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.pt"
    xser.save([torch.ones(2, device="xla")], path)

    def refused(*args: object) -> list[str]:
        raise PermissionError("the folder cannot be read")

    monkeypatch.setattr(os, "listdir", refused)
    xser.save([torch.zeros(2, device="xla")], path)
    monkeypatch.undo()
    assert xser.load(path)[0].tolist() == [0, 0]


def test_what_an_index_names_is_found_without_unpickling(tmp_path: Path) -> None:
    path = tmp_path / "generation 0123456789abcdef.pt"
    for data in ([torch.ones(2, device="xla")], {"generation": "f" * 16}, [torch.ones(1000), Hostile]):
        xser.save(data, path)
        assert [xser._named(str(path))] == os.listdir(f"{path}.tensors")
    torch.save([1], path)
    assert xser._named(str(path)) is None
    path.write_bytes(b"")
    assert xser._named(str(path)) is None and xser._named(str(tmp_path / "nowhere")) is None


def test_the_files_are_as_private_as_the_index(tmp_path: Path) -> None:
    path, root = tmp_path / "a.pt", tmp_path / "a.pt.tensors"
    xser.save([torch.ones(2, device="xla")], path)
    path.chmod(0o600)
    root.chmod(0o700)
    xser.save([torch.zeros(2, device="xla")], path)
    (folder,) = root.iterdir()
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (path, folder, *folder.iterdir())]
    assert modes == [0o600, 0o700, 0o600]


def test_a_save_within_a_save_of_the_same_state(tmp_path: Path, monkeypatch) -> None:
    """As a signal handler does it, at any moment: the last that ends is there, and nothing waits."""
    path = tmp_path / "a.pt"
    nested = iter(range(100, 200))

    def within(module: object, name: str) -> None:
        original = getattr(module, name)

        def act(*args: object, **kwargs: object) -> object:
            with monkeypatch.context() as m:
                m.setattr(module, name, original)
                xser.save([torch.full((2,), float(next(nested)), device="xla")], path)
                before = xser.load(path)[0].tolist()
                result = original(*args, **kwargs)
                assert before[0] >= 100
                return result

        monkeypatch.setattr(module, name, act)

    for module, name in ((tensor_file, "save"), (os, "replace"), (xser, "_remove_generations"), (os, "listdir")):
        within(module, name)
        xser.save([torch.full((2,), 1.0, device="xla")], path)
        monkeypatch.undo()
        assert xser.load(path)[0].tolist()[0] in (1, *range(100, 200))
    xser.save([torch.full((2,), 1.0, device="xla")], path)
    assert xser.load(path)[0].tolist() == [1, 1] and len(os.listdir(f"{path}.tensors")) == 1
