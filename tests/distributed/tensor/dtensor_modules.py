"""Cases of test_dtensor.py: modules, optimizers, losses, checkpoints. The oracle is torch on one CPU."""

from __future__ import annotations

import copy
import io
import warnings

import pytest
import torch
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module
from whole import same, whole

import torch_go_xla


class TestModules:
    def test_distribute_module(self, mesh):
        m = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 4))
        ref = copy.deepcopy(m)

        def shard(name: str, part: nn.Module, mesh: DeviceMesh) -> None:
            if isinstance(part, nn.Linear):
                part.weight = nn.Parameter(distribute_tensor(part.weight, mesh, [Shard(0)]))

        m = distribute_module(
            m,
            mesh,
            shard,
            input_fn=lambda mod, x, mesh: tuple(distribute_tensor(t, mesh, [Shard(0)]) for t in x),
            output_fn=lambda mod, y, mesh: y.full_tensor(),
        )
        assert m[0].weight.placements == (Shard(0),) and m[0].bias.placements == (Replicate(),)
        assert isinstance(m[1].running_mean, DTensor)
        x = torch.randn(8, 16)
        ours, theirs = m(x.to("xla")), ref(x)
        same(ours, theirs, rtol=1e-5, atol=1e-5)
        ours.sum().backward(), theirs.sum().backward()
        same(m[2].weight.grad, ref[2].weight.grad, rtol=1e-5, atol=1e-5)
        same(m[1].running_var, ref[1].running_var)
        with pytest.raises(RuntimeError, match="only be called once"):
            distribute_module(m, mesh)

    def test_state_dict(self, mesh):
        m = parallelize_module(nn.Sequential(nn.Linear(8, 16)), mesh, {"0": ColwiseParallel()})
        state = m.state_dict()
        assert isinstance(state["0.weight"], DTensor) and state["0.weight"].placements == (Shard(0),)
        other = parallelize_module(nn.Sequential(nn.Linear(8, 16)), mesh, {"0": ColwiseParallel()})
        other.load_state_dict(state)
        same(other[0].weight, whole(m[0].weight))

    def test_meta_device(self, mesh):
        with torch.device("meta"):
            m = nn.Sequential(nn.Linear(8, 16))
        m = parallelize_module(m, mesh, {"0": ColwiseParallel()})
        m.to_empty(device="xla")
        m[0].reset_parameters()
        assert m[0].weight.placements == (Shard(0),) and torch.isfinite(whole(m[0].weight)).all()

    def test_save_and_load(self, mesh, tmp_path):
        m = parallelize_module(nn.Sequential(nn.Linear(8, 16)), mesh, {"0": ColwiseParallel()})
        for weights_only in (True, False):
            file = io.BytesIO()
            torch.save(m.state_dict(), file)
            file.seek(0)
            loaded = torch.load(file, weights_only=weights_only)
            assert loaded["0.weight"].placements == (Shard(0),)
            same(loaded["0.weight"], whole(m[0].weight))
        file = io.BytesIO()
        m = nn.Sequential(distribute_module(nn.Linear(8, 16), mesh))
        torch.save(m, file)
        file.seek(0)
        again = torch.load(file, weights_only=False)
        assert isinstance(again[0].weight, nn.Parameter) and again[0].weight.requires_grad
        x = distribute_tensor(torch.randn(2, 8), mesh)
        same(again(x), whole(m(x)))

    def test_xm_save(self, mesh, tmp_path):
        import torch_go_xla.core.xla_model as xm

        d = distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)])
        xm.save({"w": d}, tmp_path / "w.pt")
        same(torch.load(tmp_path / "w.pt")["w"], whole(d))

    def test_checkpoint_between_meshes(self, mesh, mesh_2d, tmp_path):
        x, y = torch.randn(8, 16), torch.randn(3)
        saved = {"x": distribute_tensor(x, mesh, [Shard(0)]), "y": distribute_tensor(y, mesh, [Replicate()]), "n": 3}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.save(saved, checkpoint_id=tmp_path, no_dist=True)
            loaded = {
                "x": distribute_tensor(torch.zeros(8, 16), mesh_2d, [Shard(1), Shard(0)]),
                "y": torch.zeros(3),
                "n": 0,
            }
            dcp.load(loaded, checkpoint_id=tmp_path, no_dist=True)
        assert loaded["x"].placements == (Shard(1), Shard(0)) and loaded["n"] == 3
        same(loaded["x"], x)
        same(loaded["y"], y)


class TestOptimizers:
    @pytest.mark.parametrize("foreach", [False, True, None])
    @pytest.mark.parametrize(
        "make",
        [
            lambda p, **o: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01, **o),
            lambda p, **o: torch.optim.Adam(p, 0.01, amsgrad=True, **o),
            lambda p, **o: torch.optim.AdamW(p, 0.01, **o),
            lambda p, **o: torch.optim.Adagrad(p, 0.1, **o),
            lambda p, **o: torch.optim.RMSprop(p, 0.01, momentum=0.5, **o),
        ],
    )
    def test_equal_to_unsharded(self, mesh, make, foreach):
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
        ref = copy.deepcopy(m)
        m = parallelize_module(m, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        x = torch.randn(4, 8)
        for model, data in ((m, x.to("xla")), (ref, x)):
            optimizer = make(model.parameters(), foreach=foreach)
            for _ in range(3):
                optimizer.zero_grad()
                model(data).square().sum().backward()
                optimizer.step()
                torch_go_xla.sync()
        for p, q in zip(m.parameters(), ref.parameters(), strict=True):
            same(p, q, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("foreach", [False, True, None])
    def test_clip_grad_norm(self, mesh, foreach):
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8))
        ref = copy.deepcopy(m)
        m = parallelize_module(m, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
        x = torch.randn(4, 8)
        m(x.to("xla")).square().sum().backward()
        ref(x).square().sum().backward()
        norm = nn.utils.clip_grad_norm_(m.parameters(), 1.0, foreach=foreach)
        same(norm, nn.utils.clip_grad_norm_(ref.parameters(), 1.0))
        for p, q in zip(m.parameters(), ref.parameters(), strict=True):
            same(p.grad, q.grad, rtol=1e-4, atol=1e-6)

    def test_state(self, mesh):
        p = nn.Parameter(distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)]))
        optimizer = torch.optim.AdamW([p])
        p.sum().backward()
        optimizer.step()
        assert optimizer.state[p]["exp_avg"].placements == (Shard(0),)
        again = torch.optim.AdamW([p])
        again.load_state_dict(optimizer.state_dict())
        same(again.state[p]["exp_avg"], whole(optimizer.state[p]["exp_avg"]))

    def test_grad_scaler(self, mesh):
        p = nn.Parameter(distribute_tensor(torch.ones(8, 4), mesh, [Shard(0)]))
        optimizer = torch.optim.SGD([p], 1.0)
        scaler = torch.amp.GradScaler("xla", init_scale=4.0)
        scaler.scale(p.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        same(p, torch.zeros(8, 4))


class TestLossParallel:
    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_equal_to_unsharded(self, mesh, reduction, weighted):
        x, target = torch.randn(4, 16, requires_grad=True), torch.tensor([0, 15, 7, -100])
        weight = torch.rand(16) if weighted else None
        d = distribute_tensor(x.detach(), mesh, [Shard(1)]).requires_grad_()
        theirs = F.cross_entropy(x, target, weight, reduction=reduction)
        with loss_parallel():
            there = None if weight is None else weight.to("xla")
            ours = F.cross_entropy(d, target.to("xla"), there, reduction=reduction)
            assert ours.placements == (Replicate(),)
            ours.sum().backward()
        theirs.sum().backward()
        same(ours, theirs)
        assert d.grad.placements == (Shard(1),)
        same(d.grad, x.grad)

    def test_needs_sharded_classes(self, mesh):
        d = distribute_tensor(torch.randn(8, 16), mesh, [Shard(0)])
        with loss_parallel(), pytest.raises(ValueError, match="loss_parallel"):
            F.cross_entropy(d, torch.zeros(8, dtype=torch.long, device="xla"))
