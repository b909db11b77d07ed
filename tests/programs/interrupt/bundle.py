"""Loading a bundle is interrupted while its program compiles: the process goes on, and the bundle loads later."""

import os
import signal
import sys
import tempfile
import threading
import time

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background start without
import torch

import torch_go_xla
import torch_go_xla.debug.metrics as met
import torch_go_xla_runtime
from torch_go_xla.stablehlo import save_as_stablehlo


class Chain(torch.nn.Module):
    """Many small ops, which take the compiler seconds."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x / 8
        for i in range(60):
            y = torch.sin(y @ x) / 8 + i * 0.001
        return y


x = torch.ones(8, 8)
folder = tempfile.mkdtemp()
save_as_stablehlo(torch.export.export(Chain(), (x,)), folder)
assert (x.to("xla") + 1).sum().item() == 128
compiled = met.metric_data("CompileTime")[0]
begun = met.counter_value("UncachedCompile")
sent = 0.0


def interrupt() -> None:
    global sent
    while met.counter_value("UncachedCompile") == begun:
        time.sleep(0.005)
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt).start()
try:
    torch_go_xla_runtime.load(folder)
    sys.exit("it was not interrupted")
except KeyboardInterrupt:
    assert met.metric_data("CompileTime")[0] == compiled, "the interrupt came after the compile"
    assert time.monotonic() - sent < 5
assert (x.to("xla") + 2).sum().item() == 192
torch.testing.assert_close(torch.from_numpy(torch_go_xla_runtime.load(folder)(x.numpy())), Chain()(x))
print("good")
