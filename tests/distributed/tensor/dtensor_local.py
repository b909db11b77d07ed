"""Cases of test_dtensor.py: local values. The oracle is torch on one CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import local_map
from torch.distributed.tensor.placement_types import _StridedShard
from whole import same

import torch_go_xla
from torch_go_xla import debug
from torch_go_xla._backend import partitioning


def three() -> DeviceMesh:
    return init_device_mesh("xla", (2, 2, 2), mesh_dim_names=("a", "b", "c"))


class TestLocal:
    def test_shards(self, mesh):
        x = torch.randn(8, 4)
        local = distribute_tensor(x, mesh, [Shard(0)]).to_local()
        assert local.shape == (1, 4) and not isinstance(local, DTensor)
        torch.testing.assert_close(local.cpu(), x[:1])

    def test_without_gradients(self, mesh):
        d = distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)])
        with torch.no_grad():
            assert d.to_local().shape == (1, 4) and d.full_tensor().shape == (8, 4)
        p = nn.Parameter(distribute_tensor(torch.randn(8, 4), mesh))
        assert isinstance(p.to_local(), nn.Parameter)

    def test_replicas_are_plain(self, mesh):
        x = torch.randn(8, 4)
        same(distribute_tensor(x, mesh, [Replicate()]).to_local(), x)

    def test_there_and_back(self, mesh_2d):
        x = torch.randn(8, 16, requires_grad=True)
        d = distribute_tensor(x.detach(), mesh_2d, [Shard(0), Shard(1)]).requires_grad_()
        local = d.to_local()
        assert local.shape == (4, 4)
        y = DTensor.from_local(local * 2 + local.sin(), mesh_2d, [Shard(0), Shard(1)])
        assert y.shape == (8, 16)
        expected = x * 2 + x.sin()
        same(y, expected)
        y.square().sum().backward()
        expected.square().sum().backward()
        assert d.grad.placements == (Shard(0), Shard(1))
        same(d.grad, x.grad)

    @pytest.mark.parametrize(
        ("make", "placements", "shape"),
        [
            (lambda: init_device_mesh("xla", (2, 2)), [Shard(0), Shard(1)], (4, 4)),
            (lambda: DeviceMesh("xla", [2, 3]), [Shard(0)], (4, 8)),
            (lambda: DeviceMesh("xla", list(range(8))[::-1]), [Shard(0)], (1, 8)),
            (lambda: init_device_mesh("xla", (2, 2, 2)), [Shard(0), Shard(1), Shard(0)], (2, 4)),
            (lambda: three()["b", "c"], [Shard(0), Shard(1)], (4, 4)),
            (lambda: three()["a", "b"]._flatten("ab"), [Shard(1)], (8, 2)),
            (lambda: init_device_mesh("xla", (2, 4)), [_StridedShard(0, split_factor=4), Shard(0)], (1, 8)),
            (lambda: init_device_mesh("xla", (2, 4)), [Shard(0), Partial()], (4, 8)),
        ],
    )
    def test_meshes(self, make, placements, shape):
        mesh, x = make(), torch.randn(8, 8)
        local = distribute_tensor(x, mesh, placements).to_local()
        assert local.shape == shape
        same(DTensor.from_local(local * 2, mesh, placements), x * 2)

    def test_partial_results(self, mesh):
        x, w = torch.randn(4, 16), torch.randn(16, 6)
        a = distribute_tensor(x, mesh, [Shard(1)]).requires_grad_()
        b = distribute_tensor(w, mesh, [Shard(0)])
        y = DTensor.from_local(a.to_local() @ b.to_local(), mesh, [Partial()])
        same(y, x @ w)
        y.redistribute(placements=[Replicate()]).sum().backward()
        same(a.grad, torch.ones(4, 6) @ w.T)

    def test_gradient_placements(self, mesh):
        w = distribute_tensor(torch.randn(6, 4), mesh, [Replicate()]).requires_grad_()
        x = torch.randn(8, 4)
        local = distribute_tensor(x, mesh, [Shard(0)]).to_local()
        y = local @ w.to_local(grad_placements=[Partial()]).T
        DTensor.from_local(y, mesh, [Shard(0)]).sum().backward()
        same(w.grad, torch.ones(8, 6).T @ x)

    def test_next_to_logical_tensors(self, mesh):
        """Equal constants of both parts of the program do not make one part of the other."""
        x, y = torch.randn(8, 16), torch.randn(8, 16)
        dx, dy = (distribute_tensor(t, mesh, [Shard(0)]).requires_grad_() for t in (x, y))
        local = F.layer_norm(dx.to_local().softmax(1) * 2 + 1, (16,))
        logical = F.layer_norm(dy.softmax(1) * 2 + 1, (16,)).cumsum(1)
        (DTensor.from_local(local, mesh, [Shard(0)]) + logical).square().sum().backward()
        a, b = x.requires_grad_(), y.requires_grad_()
        f = F.layer_norm(a.softmax(1) * 2 + 1, (16,)) + F.layer_norm(b.softmax(1) * 2 + 1, (16,)).cumsum(1)
        f.square().sum().backward()
        same(dx.grad, a.grad, rtol=1e-3, atol=1e-3)
        same(dy.grad, b.grad, rtol=1e-3, atol=1e-3)

    def test_ops_of_several_results(self, mesh):
        x = torch.randn(8, 16)
        values, places = distribute_tensor(x, mesh, [Shard(0)]).to_local().sort(dim=1)
        same(DTensor.from_local(values, mesh, [Shard(0)]), x.sort(dim=1).values)
        same(DTensor.from_local(places, mesh, [Shard(0)]), x.sort(dim=1).indices)

    def test_from_a_plain_tensor(self, mesh):
        x = torch.randn(2, 3)
        same(DTensor.from_local(x, mesh, [Replicate()]), x)
        same(DTensor.from_local(x, mesh, [Partial()]), x * 8)
        same(DTensor.from_local(x, mesh, [Partial("avg")]), x)
        d = DTensor.from_local(x.to("xla"), mesh, [Shard(0)])
        assert d.shape == (16, 3)
        same(d, x.repeat(8, 1))

    def test_from_local_checks(self, mesh):
        with pytest.raises(RuntimeError, match="only accepts torch.Tensor"):
            DTensor.from_local(distribute_tensor(torch.ones(8), mesh, [Shard(0)]), mesh, [Shard(0)])
        with pytest.raises(ValueError, match="from_local"):
            DTensor.from_local(torch.ones(2), mesh, [Shard(0)], shape=torch.Size([10]), stride=(1,))

    def test_uneven_shards_have_no_local_tensor(self, mesh):
        d = distribute_tensor(torch.ones(2, 10), mesh, [Shard(1)])
        said = r"shape \(2, 10\).*dimension 1 of size 10 does not divide into 8 equal parts.*Pad the dimension to 16"
        with pytest.raises(NotImplementedError, match=said):
            d.to_local()
        assert d.redistribute(placements=[Replicate()]).to_local().shape == (2, 10)

    def test_a_part_of_the_mesh(self, mesh_2d):
        """What is local to the ranks of a part of the mesh lies along the rest of it as before."""
        x = torch.randn(4, 6, 16)
        batch = x.to("xla")
        partitioning.annotate_(batch, "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}")
        tp = mesh_2d["tp"]
        d = DTensor.from_local(batch, tp, [Replicate()]).redistribute(placements=[Shard(2)])

        def divided(x: torch.Tensor) -> torch.Tensor:
            late = torch.arange(6, device=x.device)[:, None] > 4
            y = F.gelu(x).masked_fill(late, 0.5) + x.softmax(1).cumsum(1) + x.sort(1).values
            return F.layer_norm(y @ x.mT @ x, (4,)) + F.max_pool1d(x, 1)

        def undivided(x: torch.Tensor) -> torch.Tensor:
            return x.topk(6, dim=1).values + torch.fft.fft(x, dim=1).abs() + x.asinh() + 1

        def step(f: Callable[[torch.Tensor], torch.Tensor]) -> DTensor:
            return DTensor.from_local(f(d.to_local()), tp, [Shard(2)])

        for f, gathered in ((divided, False), (undivided, True)):
            assert bool(debug.collectives(lambda f=f: step(f)._local_tensor)) == gathered
            expected = torch.cat([f(part) for part in x.chunk(4, 2)], 2)
            same(step(f), expected, rtol=1e-4, atol=1e-4)
        kept = d.to_local() * 2
        torch_go_xla.sync()
        same(DTensor.from_local(kept + 1, tp, [Shard(2)]), x * 2 + 1)

    def test_parts_of_the_mesh_do_not_mix(self, mesh_2d):
        x = torch.randn(8, 8)
        a, b = (distribute_tensor(x, mesh_2d[name], [Shard(0)]).to_local() for name in ("dp", "tp"))
        with pytest.raises(RuntimeError, match="are local to"):
            (a[:2] + b).cpu()
        with pytest.raises(NotImplementedError, match="only sums"):
            partitioning.all_gather(b, 0, [list(range(8))]).cpu()

    def test_loops_of_what_cannot_be_divided_are_refused(self, mesh_2d):
        local = distribute_tensor(torch.rand(8, 8), mesh_2d["tp"], [Shard(0)]).to_local()
        with pytest.raises(RuntimeError, match=r"poisson.*cannot divide it within a loop"):
            torch.poisson(local + 1).cpu()
        assert (local * 2).cpu().shape == (2, 8)

    def test_local_map(self, mesh):
        x, w = torch.randn(8, 4), torch.randn(4, 3)
        f = local_map(torch.mm, out_placements=[Shard(0)], in_placements=([Shard(0)], [Replicate()]), device_mesh=mesh)
        y = f(distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(w, mesh, [Replicate()]))
        assert y.placements == (Shard(0),)
        same(y, x @ w)
