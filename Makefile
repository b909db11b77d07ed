# Builds, tests and measures torch-go-xla. `make help` lists the targets.
#
#   PYTHON  the Python (3.11 or newer) that the virtual environment is made from
#   VENV    the virtual environment that everything is installed into; those of
#           `make clients`, `make plugins` and `make docs` lie beside it
#
# A machine needs Python, g++ and make. Where there is no Go, the toolchain is
# installed into the virtual environment as a Python package.

PYTHON ?= python3
VENV ?= .venv
CLIENTS ?= $(VENV)-clients
PLUGINS ?= $(VENV)-plugins
DOCS ?= $(VENV)-docs
FUZZTIME ?= 20s
WORKERS ?= 2
TORCH_XLA ?= ../xla
TORCH_TESTS ?= ../pytorch
TORCH_SAMPLE ?= 0
TORCH_SEED ?= 0
SAVE_KILLS ?= 200
PROGRAMS ?= 20000
THREAD_SECONDS ?= 60
# The minor releases of torch that the package supports and that an index has; pyproject.toml names the first.
TORCHES ?= 2.13 2.14 2.15
TORTURE_MINUTES ?= 30
TORTURE_SEED ?= 0
CGO_PACKAGES ?= ./pjrt/... ./gocore/runtime/...
RACE_PACKAGES ?= ./...
# All that have tests, but those of the tree itself.
AARCH64_PACKAGES ?= $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./pjrt/... ./gocore/... | grep -v /internal/)

PY := $(VENV)/bin/python
GO = PATH="$$($(PY) -m build_support go-path):$$PATH" go
PYEXT = CGO_CFLAGS="-I$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("include"))')"
# The Go tests that need the real compiler find it through these variables.
WITH_PLUGIN = env $$($(PY) -m build_support test-env)
GOTEST = PATH="$$($(PY) -m build_support go-path):$$PATH" $(WITH_PLUGIN) go test
# Two workers, which share out files and groups of files; WORKERS=0 runs the tests in one process.
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
DEPENDS := pyproject.toml setup.py pjrt/xlacpu/pyproject.toml

export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

.DELETE_ON_ERROR:
.PHONY: help demo test test-all tiers check conformance models docs build install wheels try-wheels release lint clients plugins aot aarch64 race seams asan cgocheck golden fuzz crash metamorphic threads torture scale bench bench-quick op-speed bench-save soak clean distclean upstream-aliases upstream-spmd upstream-jobs upstream-examples dtensor-ops upstream-torch

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(VENV)/.installed-examples build ## install everything and train on the xla device
	PJRT_DEVICE=CPU $(PY) examples/digits.py

test: $(VENV)/.installed-test build ## install what the tests need, run the Go tests and most Python tests: ten minutes
	$(GO) vet ./...
	$(GOTEST) ./...
	$(PYTEST) --tier test

test-all: $(VENV)/.installed-test build ## all tests; what `make test` draws samples of is here whole
	$(GO) vet ./...
	$(GOTEST) ./...
	$(PYTEST)

tiers: $(VENV)/.installed-test build ## most Python tests with graphs that are compiled, run op by op, or both (docs/tiers.md)
	for tier in compile eager auto; do XLA_TIER=$$tier $(PYTEST) --tier test || exit 1; done

conformance: $(VENV)/.installed-test build ## every op description of torch, all types and uses; writes docs/ops.md
	$(PY) -W ignore -m tests.conformance --processes 2 --write

models: $(VENV)/.installed-models build ## models of torchvision and transformers against the CPU; writes docs/models.md
	$(PY) -m tests.zoo --write

docs: $(VENV)/.installed-test build $(DOCS)/.installed ## the documentation site, strict, with its notebooks executed; into build/site
	$(PY) -m build_support.site notebooks
	$(DOCS)/bin/python -m build_support.site build

check: $(VENV)/.installed-test build ## a cross-section of the tests in two minutes
	$(GO) vet ./...
	$(GOTEST) -short ./...
	$(PYTEST) -q -x --tier check

build: $(VENV)/.tools ## rebuild the libraries in the source tree, as far as they changed
	$(PY) -m build_support build

install: $(VENV)/.installed-examples ## an editable install in the virtual environment

wheels: $(VENV)/.installed-dev ## the wheels of both packages, for each Python that is here, audited, in dist/
	$(PY) -m build_support wheels

aarch64: $(VENV)/.tools ## the Go tests compiled for aarch64, under qemu; needs g++-aarch64-linux-gnu and qemu-user-static
	GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc $(GO) test -short -vet=off -exec "qemu-aarch64-static -L /usr/aarch64-linux-gnu" $(AARCH64_PACKAGES)

try-wheels: ## install the wheels in dist/ without a compiler and train, for each Python
	$(PY) -m build_support try-wheels

release: $(VENV)/.installed-dev ## check version, changelog, metadata and licences of dist/, write the SBOM; uploads nothing
	$(PY) -m build_support release

lint: $(VENV)/.installed-dev build ## formatting, vet, staticcheck, ruff, mypy, the English of pages, docstrings, comments and errors, govulncheck
	@files=$$(git ls-files -co --exclude-standard '*.go') && \
	 out=$$(PATH="$$($(PY) -m build_support go-path):$$PATH" gofmt -l $$files) && \
	 { test -z "$$out" || { echo "not formatted by gofmt:"; echo "$$out"; exit 1; }; }
	$(GO) vet ./...
	$(PYEXT) $(GO) vet -tags pyext ./bindings/... ./gocore/...
	$(GO) tool staticcheck ./...
	$(PYEXT) $(GO) tool staticcheck -tags pyext ./bindings/... ./gocore/...
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PY) -m build_support prose
	$(PY) -m build_support vulns

clients: $(VENV)/.installed-test build $(CLIENTS)/.installed ## others' clients on the CPU plugin: JAX against jaxlib's own CPU, pypjrt, and JAX's functions on xla tensors
	XLACPU_JAX_PYTHON="$$(echo $(abspath $(CLIENTS))/*/bin/python | tr ' ' :)" $(PY) -m pytest -rs pjrt/xlacpu/tests/test_pypjrt.py pjrt/xlacpu/tests/test_jax.py
	python="$(abspath $(CLIENTS))/$$($(PY) -c 'import sys; print("%d.%d" % sys.version_info[:2])')/bin/python" && \
	 TGX_JAX_PACKAGES="$$($$python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" $(PY) -m pytest -rs tests/core/test_xla_builder.py

plugins: $(VENV)/.installed-test build $(PLUGINS)/.installed ## our client on the vendors' CUDA and TPU plugins, without their devices
	@vendor="$$($(PLUGINS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" && \
	 TPU_SKIP_MDS_QUERY=1 TGX_VENDOR_PLUGINS="$$vendor/jax_plugins/xla_cuda13/xla_cuda_plugin.so:$$vendor/libtpu/libtpu.so" \
	   $(GO) test -count=1 -v -run TestVendorPlugins ./pjrt && \
	 TGX_VENDOR_PACKAGES="$$vendor" $(PY) -m pytest -s tests/test_plugins_of_vendors.py

aot: $(VENV)/.installed-test build $(PLUGINS)/.installed ## programs compiled for an H100 and a TPU v5e that are absent; writes docs/accelerators.md
	rm -rf build/accelerators
	@export TGX_ACCELERATOR_ROWS=build/accelerators && \
	 export TGX_VENDOR_PACKAGES="$$($(PLUGINS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" && \
	 $(PY) -m tests.accelerators --write && $(PY) -m pytest tests/accelerators

race: $(VENV)/.tools ## the Go tests under the race detector, with the invariants checked
	$(GO) test -race -tags invariants $(RACE_PACKAGES)

asan: $(VENV)/.tools ## the packages that call C, under the address sanitizer
	$(GO) test -asan $(CGO_PACKAGES)

cgocheck: $(VENV)/.tools ## the packages that call C, with every pointer that crosses checked
	GOEXPERIMENT=cgocheck2 $(GO) test $(CGO_PACKAGES)

golden: build ## rewrite the golden files; read the difference before committing it
	@packages=$$(grep -rl --include='*_test.go' 'flag.Bool("rewrite"' bindings gocore pjrt | xargs -n1 dirname | sort -u) && \
	 for package in $$packages; do $(GOTEST) ./$$package -rewrite || exit 1; done

fuzz: $(VENV)/.tools ## every fuzz target for FUZZTIME
	@for package in $$($(GO) list ./...); do \
	   for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
	     echo "$$package $$target"; \
	     $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
	   done; \
	 done

crash: $(VENV)/.installed-test build ## kill a process that saves, SAVE_KILLS times, and load what is there
	SAVE_KILLS=$(SAVE_KILLS) $(PY) -m pytest -q tests/utils/test_save_crash.py

metamorphic: $(VENV)/.installed-test build ## PROGRAMS random programs in nine configurations against torch's CPU
	METAMORPHIC_COUNT=$(PROGRAMS) $(PY) -m pytest -q tests/metamorphic

threads: $(VENV)/.installed-test build ## eight threads that trace, sync and save for THREAD_SECONDS; the core's under the race detector
	THREAD_SECONDS=$(THREAD_SECONDS) $(PY) -m pytest -q tests/integration/test_threads.py
	$(GO) test -race -tags invariants -count=1 -v -run TestThreads ./gocore/engine -args -threads $(THREAD_SECONDS)s

torture: $(VENV)/.installed-test build ## seeded attacks for TORTURE_MINUTES, by TORTURE_SEED; its figures are those of docs/reliability.md
	$(PY) -m tests.torture --minutes $(TORTURE_MINUTES) --seed $(TORTURE_SEED)

seams: $(VENV)/.installed-test build ## what the package replaces in torch, against each supported torch in an environment of its own
	for version in $(TORCHES); do \
	   place=$(VENV)-torch-$$version && { test -x $$place/bin/python || $(PYTHON) -m venv $$place; } && \
	   $$place/bin/python -m pip install -q "torch==$$version.*" numpy pytest && \
	   PYTHONPATH=python $$place/bin/python -m pytest -q tests/_seams/test_seams.py || exit 1; \
	 done

upstream-aliases: $(VENV)/.installed-test build ## torch_xla's own tests of aliases, in-place writes and saving; TORCH_XLA as below
	$(PY) tests/upstream/aliases.py $(TORCH_XLA)

upstream-spmd: $(VENV)/.installed-test build ## torch_xla's own SPMD tests on this package; TORCH_XLA names a checkout of it
	$(PY) tests/upstream/spmd.py $(TORCH_XLA)

upstream-jobs: $(VENV)/.installed-test build ## torch_xla's own programs of several processes
	$(PY) tests/upstream/jobs.py $(TORCH_XLA)

upstream-examples: $(VENV)/.installed-models build ## torch_xla's own examples, as they are but for their sizes
	$(PY) tests/upstream/examples.py $(TORCH_XLA)

upstream-torch: $(VENV)/.installed-test build ## torch's own device-generic tests; TORCH_TESTS names checkouts of pytorch or torch-xpu-ops
	$(PY) tests/upstream/torch_tests.py $(TORCH_TESTS) --sample $(TORCH_SAMPLE) --seed $(TORCH_SEED) --processes $(WORKERS) --write

dtensor-ops: $(VENV)/.installed-test build ## torch's ops on DTensors, by torch's own test utilities
	$(PY) -W ignore tests/distributed/tensor/operators.py

scale: $(VENV)/.tools ## what the store of a job of up to 4,000 simulated processes costs; writes docs/scale.md
	$(GO) test -count=1 -timeout 20m -run TestASimulatedJob -v ./gocore/runtime -scale 8,64,256,1000,4000 -scale-page $(abspath docs/scale.md)

bench: $(VENV)/.installed-examples build ## all benchmarks, beside the peers, which are installed into BENCH_PEERS
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(PY) -m benchmarks.peers
	$(PY) -m benchmarks

op-speed: $(VENV)/.installed-test build ## ops beside eager torch and JAX, sorted by ratio; writes docs/op_speed.md
	$(PY) -m benchmarks.peers jax
	$(PY) -m benchmarks.op_speed --write

bench-quick: $(VENV)/.installed-examples build ## the benchmarks in a few minutes, with more noise
	$(GO) test -run '^$$' -bench . -benchmem -benchtime 20ms ./...
	$(PY) -m benchmarks --quick

soak: $(VENV)/.installed-examples build ## many steps, watching memory
	$(PY) -m benchmarks.soak

bench-save: $(VENV)/.installed-examples build ## xm.save beside torch.save, and the memory that it takes for 2 GB
	$(PY) -m benchmarks.saving
	$(PY) -m benchmarks.saving --mb 2000 --rounds 1

clean: ## remove what builds wrote; Go's own cache stays
	rm -rf build dist python/*.egg-info python/torch_go_xla/_lib pjrt/xlacpu/build pjrt/xlacpu/*.egg-info
	find python pjrt/xlacpu/pjrt_xla_cpu -name '*.so' -delete
	find python/torch_go_xla/_go -type f ! -name __init__.py -delete
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environments too
	rm -rf .venv .venv-clients .venv-plugins .venv-docs .venv-torch-*

# ---- the virtual environment ----

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, name one: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# What a build needs. tensorflow-cpu is part of it: the CPU plugin is made from it.
$(VENV)/.tools: $(DEPENDS) | $(PY)
	$(PY) -m build_support requirements > $(VENV)/build-requirements.txt
	$(PY) -m pip install -r $(VENV)/build-requirements.txt
	touch $@

# Others' software has environments of its own, so that the tests see the project's dependencies alone.
$(PLUGINS)/.installed: $(DEPENDS) | $(VENV)/.tools
	$(PYTHON) -m venv $(@D)
	$(PY) -m build_support requirements cuda tpu > $(@D)/requirements.txt
	$(@D)/bin/python -m pip install -r $(@D)/requirements.txt
	touch $@

$(DOCS)/.installed: build_support/site/__init__.py | $(VENV)/.tools
	$(PYTHON) -m venv $(@D)
	$(PY) -m build_support.site requirements > $(@D)/requirements.txt
	$(@D)/bin/python -m pip install -r $(@D)/requirements.txt
	touch $@

# One for this Python, whose newest JAX is not the newest of all, and one for a newer Python if there is one.
$(CLIENTS)/.installed: $(DEPENDS) | $(VENV)/.tools
	mkdir -p $(@D)
	$(PY) -m build_support requirements clients > $(@D)/requirements.txt
	$(PY) -m build_support pythons > $(@D)/pythons
	for python in $$(cat $(@D)/pythons); do \
	   place=$(@D)/$${python%%=*} && $${python#*=} -m venv $$place && \
	   $$place/bin/python -m pip install -r $(@D)/requirements.txt || exit 1; \
	 done
	touch $@

# Both packages, editable, with the named extra. The build comes first, on its own, to be seen.
$(VENV)/.installed-%: $(DEPENDS) | $(VENV)/.tools
	$(PY) -m build_support build
	PJRT_XLA_CPU_BUILT=$(abspath build/xlacpu) $(PY) -m pip install --no-build-isolation -e ./pjrt/xlacpu -e '.[$*]'
	touch $@
