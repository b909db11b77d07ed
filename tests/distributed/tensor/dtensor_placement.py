"""Cases of test_dtensor.py: meshes, placements, what goes in and out. The oracle is torch on one CPU."""

from __future__ import annotations

import pytest
import torch
import torch.distributed.tensor as dt
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from whole import same, whole


class TestMesh:
    def test_needs_no_process_group(self, mesh):
        assert (mesh.device_type, mesh.shape, mesh.ndim, mesh.size()) == ("xla", (8,), 1, 8)
        assert mesh.mesh.tolist() == list(range(8))
        assert not torch.distributed.is_initialized()

    def test_slices(self, mesh_2d):
        tp, dp = mesh_2d["tp"], mesh_2d["dp"]
        assert tp.mesh.tolist() == [0, 1, 2, 3] and dp.mesh.tolist() == [0, 4]
        assert tp.mesh_dim_names == ("tp",) and mesh_2d["dp", "tp"] == mesh_2d
        assert mesh_2d._flatten().mesh.tolist() == list(range(8))

    def test_position(self, mesh_2d):
        assert mesh_2d.get_rank() == 0
        assert tuple(mesh_2d.get_coordinate()) == (0, 0)
        assert mesh_2d.get_local_rank("tp") == 0
        with pytest.raises(RuntimeError, match="mesh_dim"):
            mesh_2d.get_local_rank()
        with pytest.raises(RuntimeError, match="process groups not initialized"):
            mesh_2d.get_group("tp")

    @pytest.mark.parametrize("shape", [(16,), (4, 4)])
    def test_larger_than_the_devices(self, shape):
        with pytest.raises(RuntimeError, match="Mesh should not be bigger than default world size 8"):
            init_device_mesh("xla", shape)

    def test_ranks_that_are_no_devices(self):
        with pytest.raises(ValueError, match="Rank 8 is out of range"):
            DeviceMesh("xla", [6, 7, 8, 9])

    def test_sizes_that_do_not_divide_the_devices(self):
        with pytest.raises(RuntimeError, match="does not divide"):
            init_device_mesh("xla", (3,))

    def test_of_some_devices(self):
        x = torch.randn(8, 4)
        d = distribute_tensor(x, DeviceMesh("xla", [4, 5, 6, 7]), [Shard(0)])
        same(d * 2, x * 2)

    def test_as_context(self, mesh):
        with mesh:
            assert distribute_tensor(torch.ones(8), placements=[Shard(0)]).device_mesh == mesh

    def test_other_device_types_are_torchs(self):
        assert type(DeviceMesh.__new__(DeviceMesh, "cpu")) is DeviceMesh


class TestDistributeTensor:
    @pytest.mark.parametrize("placement", [Shard(0), Shard(1), Shard(-1), Replicate(), Partial()])
    def test_keeps_the_values(self, mesh, placement):
        x = torch.randn(8, 16)
        for source in (x, x.to("xla")):
            d = distribute_tensor(source, mesh, [placement])
            assert isinstance(d, DTensor) and d.device.type == "xla" and d.shape == x.shape
            assert d.placements == (Shard(1) if placement == Shard(-1) else placement,)
            same(d, x)

    @pytest.mark.parametrize(
        "placements", [[Shard(0), Shard(1)], [Shard(1), Shard(1)], [Replicate(), Shard(0)], [Shard(0), Partial()]]
    )
    def test_on_a_2d_mesh(self, mesh_2d, placements):
        x = torch.randn(8, 16)
        same(distribute_tensor(x, mesh_2d, placements), x)

    @pytest.mark.parametrize("size", [10, 3, 1])
    def test_uneven(self, mesh, size):
        x = torch.randn(size, 3)
        d = distribute_tensor(x, mesh, [Shard(0)])
        same(d.relu() + 1, x.relu() + 1)
        same(d.sum(), x.sum())

    def test_uneven_over_a_part_of_the_mesh(self, mesh_2d):
        x = torch.randn(10, 3)
        same(distribute_tensor(x, mesh_2d["tp"], [Shard(0)]) * 2, x * 2)

    def test_parameters(self, mesh):
        p = nn.Parameter(torch.randn(8, 2))
        d = nn.Parameter(distribute_tensor(p, mesh, [Shard(0)]))
        assert isinstance(d, nn.Parameter) and isinstance(d, DTensor) and d.is_leaf and d.requires_grad
        (d * 3).sum().backward()
        assert isinstance(d.grad, DTensor)
        same(d.grad, torch.full((8, 2), 3.0))

    def test_of_a_dtensor(self, mesh):
        d = distribute_tensor(torch.ones(8), mesh, [Shard(0)])
        assert distribute_tensor(d, mesh, [Shard(0)]) is d
        with pytest.raises(ValueError, match="to a different placements"):
            distribute_tensor(d, mesh, [Replicate()])

    def test_factories(self, mesh):
        torch.manual_seed(3)
        plain = torch.randn(8, 4, device="xla").cpu()
        torch.manual_seed(3)
        same(dt.randn(8, 4, device_mesh=mesh, placements=[Shard(0)]), plain)
        same(dt.zeros(8, 4, device_mesh=mesh, placements=[Shard(0)]), torch.zeros(8, 4))
        same(dt.ones(8, device_mesh=mesh, placements=[Shard(0)]), torch.ones(8))
        same(dt.full((8, 2), 3.5, device_mesh=mesh), torch.full((8, 2), 3.5))
        same(dt.linspace(0, 7, steps=8, device_mesh=mesh, placements=[Shard(0)]), torch.linspace(0, 7, 8))
        assert dt.empty(8, 2, device_mesh=mesh, placements=[Shard(0)]).shape == (8, 2)
        assert dt.rand(8, 2, device_mesh=mesh, placements=[Shard(0)], requires_grad=True).requires_grad


class TestRedistribute:
    PLACEMENTS = [Shard(0), Shard(1), Replicate()]

    @pytest.mark.parametrize("source", [*PLACEMENTS, Partial()])
    @pytest.mark.parametrize("target", PLACEMENTS)
    def test_values_and_gradients(self, mesh, source, target):
        x = torch.randn(8, 16, requires_grad=True)
        w = torch.randn(8, 16)
        (x * x * w).sum().backward()
        d = distribute_tensor(x.detach(), mesh, [source]).requires_grad_()
        r = d.redistribute(mesh, [target])
        assert r.placements == (target,)
        same(r, x)
        (r * r * distribute_tensor(w, mesh, [target])).sum().backward()
        assert d.grad.placements == (Replicate() if source == Partial() else source,)
        same(d.grad, x.grad)

    def test_twice_differentiable(self, mesh):
        x = distribute_tensor(torch.randn(8), mesh, [Shard(0)]).requires_grad_()
        y = (x.redistribute(placements=[Replicate()]) ** 3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        g.sum().backward()
        same(x.grad, 6 * whole(x))

    def test_dtypes(self, mesh):
        x = distribute_tensor(torch.randn(8), mesh, [Shard(0)]).requires_grad_()
        y = x.redistribute(placements=[Replicate()], forward_dtype=torch.bfloat16)
        assert y.dtype == torch.bfloat16
        y.float().sum().backward()
        assert x.grad.dtype == torch.float32
        same(x.grad, torch.ones(8))

    def test_partial_only_from_a_shard(self, mesh):
        x = distribute_tensor(torch.ones(8), mesh, [Replicate()])
        with pytest.raises(RuntimeError, match="Can not redistribute from"):
            x.redistribute(placements=[Partial()])
        with pytest.raises(RuntimeError, match="placements is needed"):
            x.redistribute()

    def test_to_another_mesh(self, mesh, mesh_2d):
        x = distribute_tensor(torch.ones(8), mesh, [Shard(0)])
        with pytest.raises(NotImplementedError, match="Cross device mesh"):
            x.redistribute(mesh_2d, [Shard(0), Shard(0)])


class TestBadInput:
    """The classes are those that torch raises on a mesh of CPU processes."""

    def test_placement_on_a_missing_dimension(self, mesh):
        for placement in (Shard(2), Shard(-3)):
            with pytest.raises(IndexError, match="Dimension out of range"):
                distribute_tensor(torch.ones(8, 8), mesh, [placement])
        d = distribute_tensor(torch.ones(8, 8), mesh, [Shard(0)])
        with pytest.raises(IndexError, match="Dimension out of range"):
            d.redistribute(placements=[Shard(2)])
        with pytest.raises(RuntimeError, match="greater than tensor ndim"):
            DTensor.from_local(torch.ones(8), mesh, [Shard(3)])

    def test_number_of_placements(self, mesh, mesh_2d):
        with pytest.raises(ValueError, match="must have the same length"):
            distribute_tensor(torch.ones(8), mesh, [Shard(0), Shard(0)])
        with pytest.raises(AssertionError, match="length of placements"):
            dt.zeros(8, device_mesh=mesh, placements=[Shard(0), Shard(0)])
        with pytest.raises(IndexError):
            distribute_tensor(torch.ones(8), mesh_2d).redistribute(placements=[Replicate()])
        with pytest.raises(ValueError, match="must have the same length"):
            parallelize_module(nn.Linear(8, 8), mesh_2d, ColwiseParallel())

    def test_what_is_no_placement(self, mesh):
        with pytest.raises(RuntimeError, match="unsupported placements"):
            distribute_tensor(torch.ones(8), mesh, ["shard"])

    def test_not_a_leaf(self, mesh):
        with pytest.raises(RuntimeError, match="leaf"):
            distribute_tensor(torch.ones(8, requires_grad=True) * 2, mesh, [Shard(0)])

    def test_mixed_partials(self, mesh_2d):
        with pytest.raises(ValueError, match="Mixed Partial"):
            distribute_tensor(torch.ones(8), mesh_2d, [Partial("sum"), Partial("max")])

    def test_shapes_that_do_not_fit(self, mesh):
        a = distribute_tensor(torch.ones(8, 4), mesh, [Shard(0)])
        with pytest.raises(RuntimeError, match="same reduction dim"):
            a @ a
        with pytest.raises(RuntimeError, match="invalid for input of size 32"):
            a.view(5, 5)

    def test_views_of_uneven_shards(self, mesh):
        a = distribute_tensor(torch.ones(10, 4), mesh, [Shard(0)])
        with pytest.raises(RuntimeError, match="Cannot unflatten unevenly sharded tensor"):
            a.view(5, 2, 4)
        with pytest.raises(RuntimeError, match="Cannot flatten unevenly sharded tensor"):
            a.view(40)

    def test_in_place_ops_that_change_placements(self, mesh):
        with pytest.raises(RuntimeError, match="in-place operations that require placement changes"):
            distribute_tensor(torch.ones(8, 4), mesh, [Shard(0)]).sum(0).relu_()

    def test_names(self, mesh_2d):
        with pytest.raises(KeyError, match="Invalid mesh_dim_names"):
            mesh_2d["pp"]
        with pytest.raises(RuntimeError, match="must be unique"):
            init_device_mesh("xla", (2, 4), mesh_dim_names=("a", "a"))
        with pytest.raises(RuntimeError, match="Device type with index"):
            init_device_mesh("xla:0", (8,))

    def test_no_mesh(self):
        with pytest.raises(RuntimeError, match="No device mesh is currently active"):
            dt.zeros(8)
