package engine

import (
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

func TestErrorsOfAProgramCompiledAheadHaveTheirKinds(t *testing.T) {
	e := open(t)
	const module = "module @m {\n  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n    \"func.return\"(%arg0) : (tensor<2xf32>) -> ()\n  }\n}\n"
	exe, err := e.client.PJRT.Compile([]byte(module), "mlir", pjrt.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	done := make(chan struct{})
	close(done)
	c := compilers{programs: map[int64]*aheadProgram{1: {done: done, exe: &exe.Compiled}}}
	control := nullplugin.Open(t, nullplugin.Build(t))
	for function, call := range map[string]func() error{
		"Executable_GetCompiledMemoryStats": func() error { _, err := c.AheadMemory(1); return err },
		"Executable_GetCostAnalysis":        func() error { _, err := c.AheadCost(1); return err },
		"Executable_Serialize":              func() error { _, err := c.AheadExecutable(1); return err },
	} {
		for code, want := range map[string]errs.Kind{"RESOURCE_EXHAUSTED": errs.OOM, "INTERNAL": errs.Xla} {
			control.Arm(function + ":1:" + code + ":armed")
			if err := call(); errs.KindOf(err) != want {
				t.Errorf("%s fails with %s: %v is of kind %v", function, code, err, errs.KindOf(err))
			}
		}
	}
}
