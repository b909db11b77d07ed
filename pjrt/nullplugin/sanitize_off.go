//go:build !asan

package nullplugin

var sanitize []string
