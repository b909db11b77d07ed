//go:build pyext

package bindings

import _ "github.com/torch-go-xla/torch-go-xla/gocore/pyfast" // links PyInit__goxlafast into the library
