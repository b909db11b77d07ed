//go:build asan

package nullplugin

// sanitize makes the plugin check its memory too, where the test binary does.
var sanitize = []string{"-fsanitize=address"}
