// Package pjrt is a client of the PJRT plugin interface. It loads a compiler and runtime for a device as a shared
// library and drives it.
//
// It imports only the standard library, PJRT's own header (third_party), and C of its own. There abi.h arranges the
// header for Go, and abi.c compares the two; bridge.c, hot.c, wait.c and queue.c are the C side. A program uses the
// package in this order:
//
//	plugin, err := pjrt.Load("/abs/path/to/plugin.so")
//	client, err := plugin.NewClient(map[string]any{"cpu_device_count": int64(2)}, nil)
//	exe, err := client.Compile(module, "mlir", pjrt.CompileOptions{})
//	buf, ev, err := client.FromHost(unsafe.Pointer(&data[0]), pjrt.F32, []int64{2, 3}, nil,
//	        client.AddressableDevices()[0], pjrt.OnlyDuringCall)
//	call, err := exe.Prepare(1)
//	err = call.Execute([]pjrt.Buffer{buf}, nil, outs, nil)
//	ev, err = client.ToHost(outs[0], dst, size)
//	err = client.AwaitAndDestroy(ev)
//
// # Ownership
//
// Buffer and Event are plain words that name objects of the plugin; what is handed one destroys it, once, with
// Client.Destroy or Client.DestroyEvents. They are not checked in ordinary builds: a word that was destroyed must not
// be used again. Builds with the tag "invariants" keep a table of the live ones and turn every such use into an error.
// Everything else (Client, Executable, Call, CompletionQueue) has an idempotent Close, and using it afterwards is an
// error. The plugin's client is freed when it is closed and its last buffer, event and executable is gone, so that the
// order does not matter.
//
// # Errors
//
// What a plugin reports arrives as *Error with its code, the function and the
// plugin's words. A function that the plugin lacks is an *Error with code
// Unimplemented. A plugin that cannot be loaded is a *LoadError.
//
// # Threads
//
// All methods may be called from any goroutine; one Call serves one execution
// at a time. Execute, Destroy, FromHost and ToHost enter C once and do not wait.
package pjrt
