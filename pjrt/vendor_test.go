package pjrt

import (
	"os"
	"path/filepath"
	"testing"
)

// TestVendorPlugins loads the plugins that TGX_VENDOR_PLUGINS lists, separated by colons, on a machine
// without their devices: the versions are negotiated, the attributes are read, and creating a client is
// an error of the plugin's own words.
func TestVendorPlugins(t *testing.T) {
	paths := filepath.SplitList(os.Getenv("TGX_VENDOR_PLUGINS"))
	if len(paths) == 0 {
		t.Skip("TGX_VENDOR_PLUGINS names no plugins; make plugins installs and names them")
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			plugin, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			major, minor := plugin.APIVersion()
			present := 0
			for _, f := range plugin.Functions() {
				if f.Present {
					present++
				}
			}
			t.Logf("API %d.%d", major, minor)
			t.Logf("%d of the %d functions that this client knows", present, len(plugin.Functions()))
			t.Logf("attributes %v", plugin.Attributes())
			t.Logf("extensions %v", plugin.Extensions())
			if _, ok := plugin.StableHLOVersion(); !ok {
				t.Error("the plugin does not state its StableHLO version")
			}
			client, err := plugin.NewClient(nil, nil)
			if err == nil {
				t.Logf("there are devices: %v", client.Devices())
				if err := client.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			var e *Error
			if !asError(err, &e) || e.Func != "PJRT_Client_Create" || e.Code == OK || e.Msg == "" {
				t.Errorf("creating a client without a device: %v", err)
			}
			t.Logf("no device: %v", err)
		})
	}
}
