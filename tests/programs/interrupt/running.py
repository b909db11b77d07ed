"""Long steps follow each other; an interrupt comes while the device is busy with them.

Prints how long a step takes, then how long after the interrupt it was seen. The end of the process then waits for the
steps that are on their way.
"""

import signal
import sys
import time

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background start without
import torch

import torch_go_xla

CALLS = {
    "sync": lambda x: (step(x), torch_go_xla.sync())[0],
    "compile": torch_go_xla.compile(lambda x: step(x)),
}
LONG = 2.0  # seconds that a step is meant to take
products = 1


def step(x: torch.Tensor) -> torch.Tensor:
    for _ in range(products):
        x = torch.nn.functional.normalize(x @ x)
    return x


def timed(x: torch.Tensor) -> float:
    begin = time.monotonic()
    step(x)
    torch_go_xla.sync(wait=True)
    return time.monotonic() - begin


x = torch.rand(1000, 1000, device="xla")
timed(x)
while timed(x) < LONG:
    products *= 2
    timed(x)  # compiles
call = CALLS[sys.argv[1]]
print(timed(x), flush=True)
try:
    for _ in range(40):
        x = call(x)
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
