// Package nullplugin builds a PJRT plugin for tests and looks inside it.
//
// The plugin (csrc/, in C) computes a handful of StableHLO operations on host
// memory, injects faults, and keeps accounts of what was created and destroyed.
// Tests of any package load it like every other plugin:
//
//	path := nullplugin.Build(t)
//	plugin, err := pjrt.Load(path)
//	client, err := plugin.NewClient(map[string]any{"devices": int64(2)}, nil)
//
// Options of a client: devices; version; delay_us (executions and copies are done by a thread, each after the delay);
// memory_limit (bytes on each device); fault (see Control.Arm); process_index and process_count (which need a
// key-value store). Environment variables change the table that the plugin shows; see csrc/table.c. They are read when
// the library is loaded, so a test that sets them loads a copy of its own (Copy).
//
// It imports only the standard library and is for tests only.
package nullplugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
)

var build struct {
	sync.Once
	path string
	err  error
}

// Build compiles the plugin, if the sources have changed since the last time,
// and returns the absolute path of the library. It fails the test where there is
// no C compiler.
func Build(tb testing.TB) string {
	tb.Helper()
	build.Do(func() { build.path, build.err = compile() })
	if build.err != nil {
		tb.Fatalf("building the null plugin: %v", build.err)
	}
	return build.path
}

// Copy gives the test a copy of the library, which has a state of its own and
// reads the environment again.
func Copy(tb testing.TB) string {
	tb.Helper()
	data, err := os.ReadFile(Build(tb))
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "libpjrt_null_copy.so")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		tb.Fatal(err)
	}
	return path
}

// root finds the module that the running test belongs to: tests run in their
// package's directory.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "pjrt", "nullplugin", "csrc", "null.h")); missing == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			err = errors.New("the plugin's sources are not above the working directory")
		}
		dir = parent
	}
	return "", err
}

func compile() (string, error) {
	dir, err := root()
	if err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join(dir, "pjrt", "nullplugin", "csrc", "*.c"))
	if err != nil {
		return "", err
	}
	headers, err := filepath.Glob(filepath.Join(dir, "pjrt", "nullplugin", "csrc", "*.h"))
	if err != nil {
		return "", err
	}
	headers = append(headers, filepath.Join(dir, "pjrt", "abi.h"), filepath.Join(dir, "pjrt", "types.h"),
		filepath.Join(dir, "pjrt", "abi_functions.h"),
		filepath.Join(dir, "pjrt", "third_party", "xla", "pjrt", "c", "pjrt_c_api.h"))
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	args := append(strings.Fields(compiler), "-std=gnu11", "-Wall", "-Wextra", "-Werror",
		"-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")
	args = append(args, sanitize...)
	sum, err := digest(args, append(headers, sources...))
	if err != nil {
		return "", err
	}
	target := filepath.Join(dir, "build", "nullplugin", sum[:16], "libpjrt_null.so")
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", err
	}
	// Several test binaries may build at once: each writes a file of its own and
	// renames it.
	own, err := os.CreateTemp(filepath.Dir(target), "*.so")
	if err != nil {
		return "", err
	}
	own.Close()
	defer os.Remove(own.Name())
	args = append(append(args, "-o", own.Name()), sources...)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return "", errors.New(strings.Join(args, " ") + ": " + err.Error() + "\n" + string(out))
	}
	if err := os.Chmod(own.Name(), 0o755); err != nil {
		return "", err
	}
	return target, os.Rename(own.Name(), target)
}

// digest names a build by all that goes into it.
func digest(args, files []string) (string, error) {
	sort.Strings(files)
	h := sha256.New()
	for _, arg := range args {
		h.Write([]byte(arg + "\x00"))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		h.Write([]byte(filepath.Base(file) + "\x00"))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
