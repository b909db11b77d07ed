"""Cases of test_dtensor.py: whole models, equal to the same models on one CPU, and the collectives of their steps."""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from whole import whole

import torch_go_xla
from torch_go_xla import debug
from torch_go_xla._backend import partitioning


def assert_equal(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float = 1e-5) -> None:
    """Compare relative to the largest element."""
    theirs = theirs.detach()
    assert (whole(ours) - theirs).abs().max() <= tolerance * theirs.abs().max()


def assert_same_parameters(ours: nn.Module, theirs: nn.Module, tolerance: float = 1e-5) -> None:
    for (name, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert p.shape == q.shape, name
        assert_equal(p, q, tolerance)


def collectives(results: Callable[[], object]) -> Counter[str]:
    """Return how many collectives of each kind the program has that computes what ``results`` records."""
    return Counter(c.kind for c in debug.collectives(results))


class Block(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.in_proj = nn.Linear(width, 4 * width)
        self.out_proj = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out_proj(F.relu(self.in_proj(x)))


def by_hand(model: Block, mesh: DeviceMesh) -> Block:
    def place(linear: nn.Linear, weight: Shard, bias: Shard | Replicate) -> None:
        linear.weight = nn.Parameter(distribute_tensor(linear.weight, mesh, [weight]))
        linear.bias = nn.Parameter(distribute_tensor(linear.bias, mesh, [bias]))

    place(model.in_proj, Shard(0), Shard(0))
    place(model.out_proj, Shard(1), Replicate())
    return model


def by_plan(model: Block, mesh: DeviceMesh) -> nn.Module:
    return parallelize_module(model, mesh, {"in_proj": ColwiseParallel(), "out_proj": RowwiseParallel()})


def by_module(model: Block, mesh: DeviceMesh) -> nn.Module:
    def partition(name: str, part: nn.Module, mesh: DeviceMesh) -> None:
        if name == "":
            by_hand(part, mesh)

    return distribute_module(model, mesh, partition)


def train(model: nn.Module, batches: list[torch.Tensor], **options: object) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, **options)
    losses = []
    for x in batches:
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        torch_go_xla.sync()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("distribute", [by_hand, by_plan, by_module])
@pytest.mark.parametrize("foreach", [None, False])
def test_block_trains_as_unsharded(mesh, distribute, foreach):
    torch.manual_seed(0)
    ref = Block()
    model = distribute(copy.deepcopy(ref).to("xla"), mesh)
    assert model.in_proj.weight.placements == (Shard(0),) and model.out_proj.weight.placements == (Shard(1),)
    batches = [torch.randn(16, 32) for _ in range(20)]
    expected = train(ref, batches)
    losses = train(model, [x.to("xla") for x in batches], foreach=foreach)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-5, atol=0)
    assert_same_parameters(model, ref)
    assert model.in_proj.weight.grad.placements == (Shard(0),)


@pytest.mark.parametrize("distribute", [by_hand, by_plan])
def test_one_all_reduce_a_block_forward(mesh, distribute):
    model = distribute(Block().to("xla"), mesh)
    x = torch.randn(16, 32, device="xla")
    with torch.no_grad():
        assert collectives(lambda: model(x)) == {"all-reduce": 1}


@pytest.mark.parametrize("distribute", [by_hand, by_plan])
def test_one_all_reduce_a_block_backward(mesh, distribute):
    """The gradient of the input is summed over the devices, those of the weights are where they belong."""
    model = distribute(Block().to("xla"), mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(16, 32, device="xla", requires_grad=True)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        return x.grad

    step()
    assert collectives(step) == {"all-reduce": 2}


class Attention(nn.Module):
    """Its forward divides the heads by the devices, as torch's tutorial does: q, k and v are local tensors."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (w(x).view(batch, length, self.heads, self.size) for w in (self.wq, self.wk, self.wv))
        q, k = rotate(q, freqs), rotate(k, freqs)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(batch, length, -1))


def rotate(x: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    cos, sin = freqs.cos()[None, :, None], freqs.sin()[None, :, None]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.w2 = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.feed_forward = FeedForward(width)
        self.attention_norm, self.ffn_norm = nn.RMSNorm(width), nn.RMSNorm(width)

    def forward(self, x: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
        h = x + self.attention(self.attention_norm(x), freqs)
        return h + self.feed_forward(self.ffn_norm(h))


class Llama(nn.Module):
    def __init__(self, layers: int = 2, width: int = 32, heads: int = 8, words: int = 64) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.output = nn.Linear(width, words, bias=False)
        self.size = width // heads

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        half = torch.arange(self.size // 2, device=tokens.device)
        freqs = torch.outer(torch.arange(tokens.shape[1], device=tokens.device), 100.0 ** (-half / (self.size // 2)))
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h, freqs)
        return self.output(self.norm(h))


def tutorial_plan(model: Llama, tp: DeviceMesh, output: ColwiseParallel) -> Llama:
    """Parallelize as torch's tutorial on tensor parallelism does, with sequence parallelism."""
    parallelize_module(
        model,
        tp,
        {
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": output,
        },
    )
    for layer in model.layers:
        layer.attention.heads //= tp.size()
        parallelize_module(
            layer,
            tp,
            {
                "attention_norm": SequenceParallel(),
                "attention": PrepareModuleInput(
                    input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)
                ),
                "attention.wq": ColwiseParallel(),
                "attention.wk": ColwiseParallel(),
                "attention.wv": ColwiseParallel(),
                "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
                "ffn_norm": SequenceParallel(),
                "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                "feed_forward.w1": ColwiseParallel(),
                "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
                "feed_forward.w3": ColwiseParallel(),
            },
        )
    return model


def language_step(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten())
    loss.backward()
    optimizer.step()
    torch_go_xla.sync()
    return loss


def test_tutorial_trains_as_unsharded(mesh):
    torch.manual_seed(0)
    ref = Llama(layers=1)
    plan = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
    model = tutorial_plan(copy.deepcopy(ref).to("xla"), mesh, plan)
    theirs = torch.optim.AdamW(ref.parameters(), lr=0.01, eps=1e-4)
    ours = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-4)
    for _ in range(3):
        tokens = torch.randint(64, (2, 16))
        expected = language_step(ref, theirs, tokens)
        assert_equal(language_step(model, ours, tokens.to("xla")), expected)
    assert_same_parameters(model, ref, 1e-4)


def test_tutorial_with_loss_parallel(mesh):
    torch.manual_seed(0)
    ref = Llama(layers=1)
    plan = ColwiseParallel(input_layouts=Shard(1), use_local_output=False)
    model = tutorial_plan(copy.deepcopy(ref).to("xla"), mesh, plan)
    theirs, ours = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (ref, model))
    tokens = torch.randint(64, (2, 16))
    expected = language_step(ref, theirs, tokens)
    with loss_parallel():
        assert_equal(language_step(model, ours, tokens.to("xla")), expected)
    assert_same_parameters(model, ref)


def distribute_2d(model: Llama, mesh: DeviceMesh) -> Llama:
    """Shard the weights over tp; the batch is to be sharded over dp, and so are the activations between layers."""
    rows, columns = [Replicate(), Shard(0)], [Replicate(), Shard(1)]
    for name, p in list(model.named_parameters()):
        owner = model.get_submodule(name.rpartition(".")[0])
        placements = columns if name.endswith(("wo.weight", "w2.weight", "tok_embeddings.weight")) else rows
        owner.weight = nn.Parameter(distribute_tensor(p, mesh, placements if p.dim() == 2 else None))
    for part in model.modules():
        if isinstance(part, (nn.Embedding, Attention, FeedForward)):
            part.register_forward_hook(lambda m, x, y: y.redistribute(placements=[Shard(0), Replicate()]))
        if isinstance(part, Attention):
            part.__class__ = LocalAttention
    return model


def test_llama_on_a_2d_mesh(mesh_2d):
    torch.manual_seed(0)
    ref = Llama(layers=4)
    model = distribute_2d(copy.deepcopy(ref).to("xla"), mesh_2d)
    theirs, ours = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (ref, model))
    for _ in range(2):
        tokens = torch.randint(64, (4, 16))
        expected = language_step(ref, theirs, tokens)
        shared = distribute_tensor(tokens, mesh_2d, [Shard(0), Replicate()])
        assert_equal(language_step(model, ours, shared), expected)
    assert_same_parameters(model, ref)
    held = debug.placements(model)
    assert max(held.bytes_per_device()) <= 1.05 * sum(p.numel() * 4 for p in ref.parameters()) / 4
    assert held.bytes_per_device() == (bytes_per_device(model),) * 8
    first = next(p for p in held if p.name == "layers.0.feed_forward.w1.weight")
    assert (first.shape, first.placement, set(first.bytes)) == ((64, 32), "(Replicate(), Shard(dim=0))", {64 * 32})
    table = [line.split() for line in str(held).splitlines()]
    assert [first.name, "[64,", "32]", "float32", "(Replicate(),", "Shard(dim=0))", "2,048"] in table
    with torch.no_grad():
        # Two sums a layer; what is gathered are the embeddings of the words, and no weight.
        assert collectives(lambda: model(shared)) == {"all-reduce": 8, "all-gather": 1}
    # Two sums a layer there and two back, and one of the output layer's; then the loss, over all words (a maximum, a
    # sum, its gathered logits) and over the batch (the sum and the number of tokens), and all gradients over the batch.
    exchanged = debug.collectives(lambda: language_step(model, ours, shared))
    among_tp = [c for c in exchanged if set(map(len, c.groups)) == {4}]
    assert Counter(c.kind for c in among_tp) == {"all-reduce": 4 * (2 + 2) + 1 + 2, "all-gather": 2}
    assert Counter(c.kind for c in exchanged if c not in among_tp) == {"all-reduce": 2}


def bytes_per_device(model: nn.Module) -> int:
    """Return the most bytes of parameters that a device holds."""
    held: Counter[int] = Counter()
    for p in model.parameters():
        for shard in partitioning.shards(p.detach()._local_tensor):
            held[shard.device] += shard.data.numel() * shard.data.element_size()
    return max(held.values())


def plain_plan(model: Llama, tp: DeviceMesh) -> Llama:
    """Parallelize without sequence parallelism: between the blocks there are plain tensors."""
    output = ColwiseParallel(output_layouts=Replicate())
    parallelize_module(model, tp, {"tok_embeddings": RowwiseParallel(input_layouts=Replicate()), "output": output})
    columns = ("attention.wq", "attention.wk", "attention.wv", "feed_forward.w1", "feed_forward.w3")
    rows = ("attention.wo", "feed_forward.w2")
    for layer in model.layers:
        layer.attention.heads //= tp.size()
        plan = {**{name: ColwiseParallel() for name in columns}, **{name: RowwiseParallel() for name in rows}}
        parallelize_module(layer, tp, plan)
    return model


def test_parallel_over_a_part_of_the_mesh(mesh_2d):
    """Tensor parallelism over tp leaves the batch as it lies over dp: what crosses dp are sums of gradients alone."""
    torch.manual_seed(0)
    ref = Llama(layers=1)
    model = plain_plan(copy.deepcopy(ref).to("xla"), mesh_2d["tp"])
    theirs, ours = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (ref, model))
    for _ in range(2):
        tokens = torch.randint(64, (4, 16))
        expected = language_step(ref, theirs, tokens)
        batch = tokens.to("xla")
        partitioning.annotate_(batch, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}")
        assert_equal(language_step(model, ours, batch), expected)
    assert_same_parameters(model, ref)
    with torch.no_grad():  # one sum of the embeddings, two a layer
        exchanged = debug.collectives(lambda: model(batch))
        assert Counter((c.kind, len(c.groups[0])) for c in exchanged) == {("all-reduce", 4): 1 + 2}
    exchanged = debug.collectives(lambda: language_step(model, ours, batch))
    assert {c.kind for c in exchanged} == {"all-reduce"}
    assert len([c for c in exchanged if len(c.groups[0]) == 2]) == 2  # the number of tokens; the loss and the gradients


class TestFullyShard:
    def test_trains_as_unsharded(self, mesh):
        torch.manual_seed(0)
        ref = nn.Sequential(Block(), Block())
        model = copy.deepcopy(ref).to("xla")
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
        assert isinstance(model[0], FSDPModule) and list(model.state_dict()) == list(ref.state_dict())
        theirs, ours = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (ref, model))

        def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = (model(x) - 1).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        for _ in range(3):
            x = torch.randn(16, 32)
            batch = x.to("xla")
            partitioning.annotate_(batch, "{devices=[8,1]<=[8]}")
            assert_equal(step(model, ours, batch), step(ref, theirs, x))
        assert_same_parameters(model, ref)
        assert {p.placements for p in model.parameters()} == {(Shard(0),)}
        assert {p.grad.placements for p in model.parameters()} == {(Shard(0),)}
        assert bytes_per_device(model) == sum(p.numel() * 4 for p in ref.parameters()) / 8
        gathered = [c for c in debug.collectives(lambda: step(model, ours, batch)) if c.kind == "all-gather"]
        shapes = {shape for c in gathered for shape in c.shapes}
        assert "f32[128,32]" in shapes and "f32[16,32]" not in shapes, shapes  # weights, not the batch

    def test_precision_and_errors(self, mesh, mesh_2d):
        half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32)
        model = fully_shard(Block().to("xla"), mesh=mesh_2d, mp_policy=half)
        assert model.in_proj.weight.placements == (Replicate(), Shard(0))
        y = model(torch.randn(16, 32, device="xla"))
        y.sum().backward()
        assert y.dtype == model.in_proj.weight.dtype == model.in_proj.weight.grad.dtype == torch.float32
        for options, said in (
            ({"offload_policy": CPUOffloadPolicy()}, "no offload policy"),
            ({"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float32)}, "in the type of the parameters"),
        ):
            with pytest.raises(NotImplementedError, match=said):
                fully_shard(Block().to("xla"), mesh=mesh, **options)
        with pytest.raises(NotImplementedError, match="not distributed yet"):
            fully_shard(by_plan(Block().to("xla"), mesh_2d["tp"]), mesh=mesh_2d["dp"])


class LocalAttention(Attention):
    """Attention on the heads and the part of the batch that a device has, as shard_map would run it."""

    def forward(self, x: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
        mesh = self.wq.weight.device_mesh
        layout = [Shard(0), Shard(2)]
        q, k, v = (w(x).redistribute(placements=layout).to_local() for w in (self.wq, self.wk, self.wv))
        q, k, v = (t.view(t.shape[0], t.shape[1], self.heads // mesh["tp"].size(), self.size) for t in (q, k, v))
        q, k = rotate(q, freqs), rotate(k, freqs)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        y = y.transpose(1, 2).flatten(2)
        return self.wo(DTensor.from_local(y, mesh, layout))


def test_prepared_outputs(mesh):
    model = parallelize_module(
        nn.Sequential(nn.Linear(8, 8)).to("xla"),
        mesh,
        PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0), use_local_output=False),
    )
    y = model(torch.ones(8, 8, device="xla"))
    assert y.placements == (Shard(0),)


class HeadsApart(nn.Module):
    """Softmax by parts of the columns that a device has."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(16, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.proj(x)
        if isinstance(y, DTensor):
            return DTensor.from_local(y.to_local().softmax(-1), y.device_mesh, y.placements).full_tensor()
        return y.unflatten(-1, (8, 4)).softmax(-1).flatten(-2)


@pytest.mark.parametrize("compiled", ["torch.compile", "torch_go_xla.compile"])
def test_compiled_steps(mesh, compiled):
    torch.manual_seed(0)
    ref = nn.Sequential(Block(16), HeadsApart())
    model = copy.deepcopy(ref).to("xla")
    parallelize_module(
        model,
        mesh,
        {
            "0.in_proj": ColwiseParallel(),
            "0.out_proj": RowwiseParallel(),
            "1.proj": ColwiseParallel(use_local_output=False),
        },
    )
    theirs, ours = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (ref, model))

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().sum(-1).mean()
        loss.backward()
        optimizer.step()
        return loss

    if compiled == "torch.compile":
        run = torch.compile(model, backend="openxla", fullgraph=True)
        own = functools.partial(step, run, ours)
    else:
        own = torch_go_xla.compile(functools.partial(step, model, ours))
    for _ in range(4):
        x = torch.randn(4, 16)
        assert_equal(own(x.to("xla")), step(ref, theirs, x))
    assert_same_parameters(model, ref)
