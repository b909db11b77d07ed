module github.com/torch-go-xla/torch-go-xla

go 1.26.0

// gopy v0.4.10 asks for x/tools v0.16.0, which Go 1.25 and newer cannot
// compile: the version named here has to stay at v0.52.0 or above.
require (
	github.com/go-python/gopy v0.4.10
	github.com/google/uuid v1.6.0
	golang.org/x/exp v0.0.0-20260908205506-85c1c2202aba
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	github.com/gonuts/commander v0.1.0 // indirect
	github.com/gonuts/flag v0.1.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/telemetry v0.0.0-20261010193011-f71dc92da45e // indirect
	golang.org/x/tools v0.52.0 // indirect
	golang.org/x/vuln v1.9.0 // indirect
	honnef.co/go/tools v0.8.2 // indirect
)

tool (
	github.com/go-python/gopy
	golang.org/x/tools/cmd/goimports
	golang.org/x/vuln/cmd/govulncheck
	honnef.co/go/tools/cmd/staticcheck
)

ignore (
	./build
	./python
)
