"""Starts a worker of torch's tests on one that never ends, says which process it is, and waits for it."""

import os
import subprocess
import sys

worker = subprocess.Popen([sys.executable, *sys.argv[1:], str(os.getpid())], stdin=subprocess.PIPE)
assert worker.stdin is not None
worker.stdin.write(b"TestTinyXLA.test_d_hangs_xla")
worker.stdin.close()
print(worker.pid, flush=True)
worker.wait()
