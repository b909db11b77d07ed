package pjrt

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

const header = "third_party/xla/pjrt/c/pjrt_c_api.h"

// TestNames compares the names of codes and extensions with the enumerators of PJRT's header; the compiler compares
// layouts, see abi.c.
func TestNames(t *testing.T) {
	text, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	for prefix, ours := range map[string][]string{"Error_Code_": codeNames[:], "Extension_Type_": extensionNames[:ExtShardings]} {
		var theirs []string
		for _, m := range regexp.MustCompile(`(?m)^  PJRT_`+prefix+`(\w+)(?: = \d+)?,?(?:\s*//.*)?$`).FindAllSubmatch(text, -1) {
			theirs = append(theirs, string(m[1]))
		}
		if !slices.Equal(ours, theirs) {
			t.Errorf("%s:\nours   %v\ntheirs %v", prefix, ours, theirs)
		}
	}
}

// TestHeaderIsTheBuilds compares the headers with those that the CPU plugin is built with, where they are.
func TestHeaderIsTheBuilds(t *testing.T) {
	for _, name := range []string{"pjrt_c_api.h", "pjrt_c_api_ffi_extension.h"} {
		ours, err := os.ReadFile(filepath.Join(filepath.Dir(header), name))
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(filepath.Join("..", "build", "xlacpu", "tensorflow", "include", "xla", "pjrt", "c", name))
		if err != nil {
			t.Skip("the headers that the CPU plugin is built with are not here: ", err)
		}
		if !bytes.Equal(ours, theirs) {
			t.Errorf("%s is not that of build/xlacpu/tensorflow: copy it from there", name)
		}
	}
}

// TestTypeTables asks types that do not exist for their names.
func TestTypeTables(t *testing.T) {
	if Type(99).String() != "TYPE(99)" || Type(99).Size() != 0 || Token.Size() != 0 {
		t.Error("a type that does not exist, or a token, has a name or a size")
	}
	if Code(99).String() != "CODE(99)" || ResourceExhausted.String() != "RESOURCE_EXHAUSTED" {
		t.Error("codes are misnamed")
	}
}
