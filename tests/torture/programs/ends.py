"""Forks a child for each line, which leaves the loop and ends as any program does; see `tests.torture.exits`."""

import json
import os
import sys

import numpy
import torch

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        break
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    sys.exit()
text, env, log = json.loads(line)
os.environ.update(env)
out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
for fd, to in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (out, 2)):
    os.dup2(fd, to)
exec(compile(text, "<program>", "exec"))
