package pjrt

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

// TestRegisterHandlerWithoutExtension asks plugins that have no FFI extension, or one that ends before the
// function that registers.
func TestRegisterHandlerWithoutExtension(t *testing.T) {
	handler := unsafe.Pointer(pinnedPointer(t, 8)) // no one calls it
	for _, extensions := range []string{"", "4", "4,5"} {
		t.Setenv("NULL_PJRT_EXTENSIONS", extensions)
		plugin, err := Load(nullplugin.Copy(t))
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, plugin.RegisterHandler("target", "cpu", handler), Unimplemented, "FFI_Register_Handler", "no FFI extension")
	}
}

// TestRealRegisterHandler has the real plugin refuse a handler, which takes a name apart from its platform.
func TestRealRegisterHandler(t *testing.T) {
	plugin, before := realPlugin(t), MemoryCounters()
	wantCode(t, plugin.RegisterHandler("target", "cpu", nil), InvalidArgument, "FFI_Register_Handler", "handler is null")
	if after := MemoryCounters(); !slices.Equal(before, after) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
