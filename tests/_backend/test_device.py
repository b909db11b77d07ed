"""The device as torch sees it: names, factories, modules, random numbers, streams, threads, forks."""

import gc
import os
import threading
import weakref

import processes
import pytest
import torch

from torch_go_xla import ForkedProcessError
from torch_go_xla._backend import core
from torch_go_xla._backend.core import native


def run_python(*program, **env):
    """Run a program in a process of its own; returns its code and what it wrote."""
    done = processes.run(*program, **env)
    return done.code, done.out, done.err


# ---- names ----


def test_device_objects():
    d = torch.device("xla:0")
    assert (d.type, d.index, str(d)) == ("xla", 0, "xla:0")
    assert torch.device("xla", 2).index == 2 and torch.device("xla").index is None
    assert torch.get_device_module("xla") is torch.xla


def test_is_xla():
    assert torch.zeros(1, device="xla").is_xla and not torch.zeros(1).is_xla
    assert torch.nn.Parameter(torch.zeros(1, device="xla")).is_xla


def test_moving():
    x = torch.randn(3)
    for y in (x.to("xla"), x.xla(), x.xla(0), x.to(torch.device("xla", 0)), x.xla("xla:0")):
        assert str(y.device) == "xla:0" and torch.equal(y.cpu(), x)
    y = x.to("xla")
    assert y.to("xla") is y and y.xla() is y and y.cpu() is not y
    assert y.to("cpu", torch.float64).dtype == torch.float64
    with pytest.raises(TypeError, match="numpy"):
        y.numpy()


@pytest.mark.longer
def test_devices_of_one_process():

    assert (
        run_python("device/devices_of_one_process.py", CPU_NUM_DEVICES="4", PYTHONWARNINGS="ignore")[1].strip()
        == "done"
    )


# ---- factories ----


@pytest.mark.parametrize("dtype", list(core.SCALAR_TYPE))
def test_every_dtype_goes_there_and_back(dtype):
    x = torch.arange(5).to(dtype)
    y = x.to("xla")
    assert y.dtype == dtype and torch.equal(y.cpu().view(torch.uint8), x.view(torch.uint8))
    assert torch.empty(2, dtype=dtype, device="xla").dtype == dtype


def test_a_dtype_that_there_is_not():
    with pytest.raises(TypeError, match="complex32"):
        torch.empty(2, dtype=torch.complex32, device="xla")


def test_empty():
    with pytest.raises(RuntimeError, match=r"negative dimension -1: \[2, -1\]"):
        torch.empty(2, -1, device="xla")
    assert torch.empty(1, 2, 3, 4, device="xla", memory_format=torch.channels_last).stride() == (24, 1, 8, 2)
    with pytest.raises(RuntimeError, match="rank 4"):
        torch.empty(2, device="xla", memory_format=torch.channels_last)
    s = torch.empty_strided((2, 3), (1, 4), device="xla")
    assert s.stride() == (1, 4) and s.untyped_storage().nbytes() == 40
    s.fill_(3)
    assert s.tolist() == [[3, 3, 3], [3, 3, 3]]
    with pytest.raises(RuntimeError):
        torch.empty_strided((2,), (-1,), device="xla")
    with pytest.raises(NotImplementedError):
        torch.empty(2, device="xla", layout=torch._mkldnn)


def test_default_dtype_and_device():
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.zeros(1, device="xla").dtype == torch.float64
        assert (torch.tensor([1], device="xla") * 0.5).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("xla"):
        assert torch.zeros(2).is_xla and torch.nn.Linear(2, 2).weight.is_xla
    assert (torch.tensor([1], device="xla") * 0.5).dtype == torch.float32


def test_scalars_out():
    assert torch.tensor(2.5, device="xla").item() == 2.5
    assert torch.arange(6.0).view(2, 3).to("xla")[1, 2].item() == 5
    assert torch.zeros(100, 100, device="xla")[3, 4].item() == 0
    assert bool(torch.ones(1, device="xla")) and int(torch.tensor(3, device="xla")) == 3
    assert torch.tensor(1 + 2j, device="xla").item() == 1 + 2j
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        torch.zeros(2, device="xla").item()


def test_repr():
    text = repr(torch.tensor([1.5, 2.0], device="xla"))
    assert text == "tensor([1.5000, 2.0000], device='xla:0')"


def test_equal():
    x = torch.arange(3.0).to("xla")
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1) and not torch.equal(x, x[:2])
    with pytest.raises(RuntimeError, match="same device"):
        torch.equal(x, x.cpu())


def test_transfers_of_views():
    t = torch.arange(600.0).view(20, 30)
    x = t.to("xla")
    for view in (lambda a: a.t(), lambda a: a[3], lambda a: a[:, 3], lambda a: a[::7, 1:4], lambda a: a[5, 5]):
        assert torch.equal(view(x).cpu(), view(t))
        assert view(x).cpu().stride() == view(x).contiguous().stride() or view(x).cpu().stride() == view(t).stride()
    big = torch.arange(1 << 16).to("xla")
    assert big[5:8].tolist() == [5, 6, 7]
    to = torch.zeros(3, dtype=torch.int32)
    to.copy_(big[1:4])
    assert to.tolist() == [1, 2, 3]
    part = torch.zeros(4, device="xla")
    part[1:3] = torch.tensor([7, 8])
    part[3:].copy_(torch.tensor(9.0))
    assert part.tolist() == [0, 7, 8, 9]


def test_a_copy_may_ask_not_to_block():
    x = torch.arange(4, device="xla").to("cpu", torch.float64, non_blocking=True)
    assert x.dtype == torch.float64 and x.tolist() == [0, 1, 2, 3]
    assert x.to("xla", non_blocking=True).tolist() == [0, 1, 2, 3]


def test_a_copy_to_meta_is_nothing():
    assert torch.zeros(2, device="xla").to("meta").device.type == "meta"


# ---- modules ----


def test_modules_keep_identity_and_ties():
    m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    m[1].weight = m[0].weight
    w = m[0].weight
    assert m.xla() is m
    assert m[0].weight is m[1].weight is w and w.is_xla and type(w) is torch.nn.Parameter
    assert m.cpu()[1].weight is w and w.device.type == "cpu"
    assert torch.nn.Linear(2, 2, device="meta").to_empty(device="xla").weight.is_xla
    assert not torch.__future__.get_swap_module_params_on_conversion()


def test_modules_keep_gradients_and_dtype_changes():
    m = torch.nn.Linear(2, 2)
    m(torch.ones(1, 2)).sum().backward()
    w = m.weight
    m.to("xla", torch.float64)
    assert m.weight is w and w.dtype == w.grad.dtype == torch.float64 and w.grad.is_xla
    m.float()
    assert m.weight is w and w.dtype == torch.float32 and w.is_xla


def test_modules_that_compute_a_weight_move():
    layer = torch.nn.utils.weight_norm(torch.nn.Linear(3, 2))
    want = layer(torch.ones(1, 3)).detach()
    g = layer.weight_g
    there = layer.to("xla")
    assert there.weight_g is g and g.is_xla
    torch.testing.assert_close(there(torch.ones(1, 3, device="xla")).cpu(), want)


def test_lazy_modules_move_before_they_know_their_sizes():
    layer = torch.nn.LazyLinear(2)
    weight = layer.weight
    layer.to("xla")
    assert layer.weight is weight and torch.nn.parameter.is_lazy(weight) and weight.device.type == "xla"
    assert layer(torch.ones(4, 3, device="xla")).shape == (4, 2)
    assert weight.shape == (2, 3) and type(weight) is torch.nn.Parameter


def test_kinds_of_tensors_that_there_are_not():
    x = torch.ones(2, 2, device="xla")
    for kind, make in {
        "nested": [
            lambda: torch.nested.nested_tensor([x, x]) * 2,
            lambda: torch.nested.nested_tensor([torch.ones(2)]).to("xla"),
        ],
        "quantized": [lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)],
    }.items():
        for f in make:
            with pytest.raises(NotImplementedError, match=f"{kind} tensors"):
                f()


def test_packed_sequences():
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]).xla()
    assert packed.data.is_xla


@pytest.mark.longer
@pytest.mark.parametrize("cls", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers(cls):
    torch.manual_seed(0)
    results = []
    layer = cls(3, 4, num_layers=2)
    x = torch.randn(5, 2, 3)
    for device in ("cpu", "xla"):
        m = cls(3, 4, num_layers=2)
        m.load_state_dict(layer.state_dict())
        m.to(device)
        y = x.detach().to(device).requires_grad_()
        out, state = m(y)
        (out.sum() + sum(s.pow(2).sum() for s in (state if isinstance(state, tuple) else (state,)))).backward()
        results.append([t.cpu() for t in (out.detach(), y.grad, *(p.grad for p in m.parameters()))])
    torch.testing.assert_close(results[1], results[0])


def test_convolutions():
    torch.manual_seed(0)
    for make in (
        lambda: torch.nn.Conv2d(3, 4, 3, padding=1, stride=2),
        lambda: torch.nn.Conv1d(3, 3, 2, groups=3, bias=False),
        lambda: torch.nn.ConvTranspose2d(3, 4, 3, output_padding=1, stride=2),
    ):
        torch.manual_seed(0)
        m = make()
        x = torch.randn(2, 3, 6, 6) if m.weight.dim() == 4 else torch.randn(2, 3, 6)
        results = []
        for device in ("cpu", "xla"):
            m.to(device).zero_grad()
            y = x.detach().to(device).requires_grad_()
            m(y).pow(2).sum().backward()
            results.append([y.grad.cpu(), *(p.grad.cpu().clone() for p in m.parameters())])
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)


# ---- streams ----


def test_streams_and_events():
    with torch.xla.stream(torch.xla.current_stream()) as s:
        s.wait_stream(torch.xla.default_stream())
        a, b = (torch.xla.Event(enable_timing=True) for _ in range(2))
        a.record()
        torch.ones(2, device="xla").add_(1)
        s.record_event(b)
    assert a.elapsed_time(b) >= 0 and b.query() and s.query()
    with pytest.raises(RuntimeError, match="enable_timing"):
        torch.xla.Event().elapsed_time(b)
    assert torch.xla.current_stream() == torch.xla.Stream("xla:0")
    torch.ones(2, device="xla").record_stream(torch.Stream(device="xla"))
    torch.accelerator.synchronize()


def test_device_module_has_what_torch_asks_for():
    for name in (
        "_is_in_bad_fork",
        "manual_seed_all",
        "device_count",
        "get_amp_supported_dtype",
        "get_rng_state",
        "device",
    ):
        assert hasattr(torch.xla, name)
    assert torch.xla.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]
    assert torch.xla.is_bf16_supported() and torch.xla._initialized and torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("xla")


def test_pinning_is_nothing():
    x = torch.ones(2)
    assert x.pin_memory() is x and not x.is_pinned() and not x.to("xla").is_pinned()
    with pytest.raises(RuntimeError, match="pinned"):
        torch.empty(2, device="xla", pin_memory=True)


# ---- threads ----


def test_backward_in_a_thread():
    results = []

    def work(scale):
        p = torch.ones(2, device="xla", requires_grad=True)
        (p * scale).sum().backward()
        results.append(p.grad.tolist())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [[i, i] for i in range(4)]


def test_a_backward_pass_runs_in_the_thread_that_calls_it():
    """Also where that thread has recorded nothing; a thread starts as in any other process."""
    x = torch.ones(3, device="xla", requires_grad=True)
    y, g, ran = x * 2, torch.ones(3, device="xla"), []
    y.register_hook(lambda grad: ran.append(threading.get_ident()))

    def work():
        y.backward(g)
        ran.append(threading.get_ident())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(ran) == 2 and ran[0] == ran[1] != threading.get_ident() and x.grad.tolist() == [2, 2, 2]
    assert torch.autograd.is_multithreading_enabled() and threading.Thread.start.__module__ == "threading"


def test_threads_record_at_the_same_time():
    """The core may be busy with another thread's call: the kernel waits without the GIL."""
    errors = []

    def work():
        try:
            x = torch.zeros(4, device="xla")
            for _ in range(200):
                x.add_(1)
            if x.tolist() != [200] * 4:
                errors.append(x.tolist())
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for _ in range(5):
        torch.xla.synchronize()
    for t in threads:
        t.join()
    assert errors == []


# ---- forks ----


def in_child(f):
    """Return what f returns, or the name of what it raises, in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = repr(f())
        except BaseException as e:
            text = type(e).__name__
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    text = b""
    while part := os.read(read, 4096):
        text += part
    os.close(read)
    os.waitpid(pid, 0)
    return text.decode()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_gets_an_error_and_the_parent_lives_on():
    x = torch.ones(2, device="xla")
    for f in (
        lambda: x + 1,
        lambda: x.add_(1),
        lambda: torch.zeros(1, device="xla"),
        lambda: x.cpu(),
        lambda: torch.ones(1).to("xla"),
        lambda: torch.linalg.svd(x.view(2, 1)),
        lambda: torch.xla.synchronize(),
    ):
        assert in_child(f) == ForkedProcessError.__name__
    assert in_child(lambda: torch.xla._is_in_bad_fork()) == "True"
    assert in_child(lambda: (torch.manual_seed(1), torch.rand(2).sum() > 0)[1].item()) == "True"

    def drop():
        nonlocal x
        x = None
        return [torch.ones(1).item() for _ in range(3)]

    assert in_child(drop) == "[1.0, 1.0, 1.0]"
    assert not torch.xla._is_in_bad_fork() and (x + 1).tolist() == [2, 2]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_data_loaders(workers):
    data = torch.utils.data.TensorDataset(torch.arange(6.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=workers, pin_memory=True)
    assert sum(batch.to("xla").sum().item() for (batch,) in loader) == 15


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_worker_that_uses_the_device_reports_it():
    data = torch.utils.data.TensorDataset(torch.arange(4.0).to("xla"))
    with pytest.raises(ForkedProcessError):
        next(iter(torch.utils.data.DataLoader(data, batch_size=2, num_workers=1)))


# ---- imports that cannot work ----


@pytest.mark.longer
def test_import_beside_torch_xla():

    assert "torch_xla is loaded" in run_python("device/import_beside_torch_xla.py")[1]


@pytest.mark.longer
def test_import_beside_another_backend():

    assert "another backend, 'npu'" in run_python("device/import_beside_another_backend.py")[1]


@pytest.mark.longer
def test_import_into_a_torch_that_is_too_old():

    assert "2.13 and newer" in run_python("device/import_into_a_torch_that_is_too_old.py")[1]


@pytest.mark.longer
def test_import_after_tensors_and_threads():

    assert run_python("device/import_after_tensors_and_threads.py")[1].strip() == "done"


@pytest.mark.longer
def test_exit_with_live_tensors():

    assert run_python("device/exit_with_live_tensors.py") == (0, "done\n", "")


def test_native_is_the_core_of_the_process():
    assert native().device_count() >= 1


@pytest.mark.parametrize("to", [{"device": "cpu"}, {"dtype": torch.int32}, {"device": "cpu", "dtype": torch.float64}])
def test_non_blocking_copies(to):
    """Torch would take pinned memory for those to the CPU, which the device does not have."""
    x = torch.arange(6.0, device="xla").view(2, 3)
    for t in (x, x.t(), x[:, ::2]):
        got, want = t.to(non_blocking=True, **to), t.cpu().to(**to)
        assert got.dtype == want.dtype and got.device.type == to.get("device", "xla") and torch.equal(got.cpu(), want)
    assert torch.equal(x.t().to(torch.float64).cpu(), x.cpu().t().double()) and x.t().to(torch.float64).stride() == (
        1,
        3,
    )


class _Refuses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad @ torch.ones(5, 5, device="xla")


@pytest.mark.longer
@pytest.mark.parametrize("threads", [False, True])
def test_exceptions_in_a_backward_pass(threads, monkeypatch):
    """torch unwinds through the device guard with the exception pending; nothing is lost, and nothing dies."""

    class Mine(Exception):
        pass

    alive = []

    def refuse(grad):
        error = Mine("no gradient")
        alive.append(weakref.ref(error))
        raise error

    monkeypatch.setattr(torch.autograd.Variable, "_execution_engine", torch._C._ImperativeEngine())  # not the seam's
    with torch.autograd.set_multithreading_enabled(threads):
        x = torch.ones(3, device="xla", requires_grad=True)
        y = x * 2
        handle = y.register_hook(refuse)
        for _ in range(3):
            with pytest.raises(Mine, match="no gradient"):
                y.sum().backward(retain_graph=True)
        assert x.grad is None
        handle.remove()
        with pytest.raises(RuntimeError, match="size mismatch|cannot be multiplied|must be"):
            _Refuses.apply(x).sum().backward()
        y.sum().backward()
        assert x.grad.tolist() == [2, 2, 2]
    gc.collect()
    assert [r() for r in alive] == [None] * 3


@pytest.mark.longer
@pytest.mark.parametrize("unknown", [False, True])
def test_who_answers_for_the_device_guard(unknown):
    """C for a torch whose guards are known; Python for others."""
    newest = torch.__version__.startswith("2.15.")
    if unknown and not newest:
        pytest.skip("an older torch cannot be shown as one that is newer than the package")
    known = newest and not unknown
    code, said, _ = run_python("device/device_guard.py", *["unknown"] * unknown)
    assert code == 0
    assert said.split() == (["not", "asked"] if known else ["asked"])
