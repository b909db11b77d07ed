"""Loads copies of a library: each has a state of its own."""

import ctypes
import sys

libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]
print([library.outer() for library in (*libraries, *libraries, libraries[0])])
print(sum("libmine" in line or "libinner" in line for line in open("/proc/self/maps")) > 0)
