"""Say when a cleaner is called, in a fork and at the end of the process: run by test_lifetime.py."""

import os
import sys

from torch_go_xla.utils.utils import Cleaner, TmpFolder

cleaner, folder = Cleaner(lambda: print("called", flush=True)), TmpFolder()
child = os.fork()
if child == 0:
    del cleaner, folder
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(os.path.isdir(folder.name), folder.name, flush=True)
sys.exit(0)
