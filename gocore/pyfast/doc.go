// Package pyfast is the data plane between torch's dispatcher and the core. It is a second CPython module, _goxlafast,
// in the shared library that gopy builds: both use one Go runtime.
//
// The C files hold one callable object per ATen overload. A call encodes its arguments as words (see
// package wire), makes one call of engine.Trace and wraps the results as
// plain torch tensors. This file's neighbours in Go only carry calls over: no logic lives here.
//
// Everything but this file needs Python's headers and stands behind the build tag pyext. The package
// imports engine, wire and errs.
package pyfast
