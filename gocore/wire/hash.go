// Generated from gocore/wire, gocore/dtype and gocore/errs by `go generate ./gocore/wire`; do not edit.

package wire

// Hash names the state of the vocabulary.
const Hash = "6ada875185d047bb"
