"""Compiled: run by test_memory.py."""

import re

import torch

import torch_go_xla
import torch_go_xla.debug.metrics as met

sizes = range(2, 130)  # a kernel each
xs = [torch.ones(n).to("xla") for n in sizes]
kept = [x.exp() * x.sigmoid() for x in xs]
torch_go_xla.sync(wait=True)
maps = re.split("^(?=[0-9a-f]+-)", open("/proc/self/smaps").read(), flags=re.M)
resident = sum(
    int(re.search("Rss: *([0-9]+)", m)[1]) - int(re.search("Anonymous: *([0-9]+)", m)[1])
    for m in maps
    if "libpjrt_xla_cpu_cc" in m
)
print(met.metric_data("CompileTime")[1] // 1_000_000, resident)
