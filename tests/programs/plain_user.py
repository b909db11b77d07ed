"""Run a program of this folder without what root may do with files of others.

The owner of a file may still do all that its mode allows.
"""

import ctypes
import os
import runpy
import sys

ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
sys.argv.pop(0)
program = os.path.join(os.path.dirname(__file__), sys.argv[0])
sys.path[0] = os.path.dirname(program)
runpy.run_path(program, run_name="__main__")
