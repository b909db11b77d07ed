package bindings

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
)

// readSettings reads what OpenDevice is given, and sets the variables of the environment.
func readSettings(text string) (s engine.Settings, err error) {
	var in struct {
		Library     string            `json:"library"`
		Preload     []string          `json:"preload"`
		Options     map[string]any    `json:"options"`
		Flags       map[string]any    `json:"flags"`
		Torch       string            `json:"torch"`
		Gradients   uint64            `json:"gradient_keys"`
		Environment map[string]string `json:"environment"`
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber() // an option that is 1 is another than one that is 1.0
	if err := decoder.Decode(&in); err != nil {
		return s, errs.Wrap(errs.Value, err, "settings: %v", err)
	}
	for name, v := range in.Environment {
		if err := engine.Default.Configure(name, v); err != nil {
			return s, err
		}
	}
	for name, v := range in.Options {
		value, ok := option(v)
		if !ok {
			return s, errs.New(errs.Type, "option %s of the plugin must be a string, bool, int of 64 bits, float or list of such ints", name)
		}
		in.Options[name] = value
	}
	if err := flags(in.Flags); err != nil {
		return s, err
	}
	return engine.Settings{Library: in.Library, Preload: in.Preload, Options: in.Options, Flags: in.Flags, Torch: in.Torch, GradientKeys: in.Gradients}, nil
}

// option is a create option, as JSON has it, in the type that a plugin's client takes.
func option(v any) (any, bool) {
	switch v := v.(type) {
	case string, bool:
		return v, true
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			f, err := strconv.ParseFloat(v.String(), 32)
			return float32(f), err == nil
		}
		i, err := v.Int64()
		return i, err == nil
	case []any:
		list := make([]int64, len(v))
		for i, item := range v {
			n, _ := option(item)
			integer, ok := n.(int64)
			if !ok {
				return nil, false
			}
			list[i] = integer
		}
		return list, true
	}
	return nil, false
}

// readFlags reads options of XLA by name.
func readFlags(text string) (in map[string]any, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&in); err != nil {
		return nil, errs.Wrap(errs.Value, err, "compiler options: %v", err)
	}
	return in, flags(in)
}

// flags gives options of XLA, as JSON has them, the types that a compiler takes.
func flags(in map[string]any) error {
	for name, v := range in {
		switch v := v.(type) {
		case string, bool:
			continue
		case json.Number:
			if i, err := v.Int64(); err == nil {
				in[name] = i
				continue
			}
			if f, err := v.Float64(); err == nil {
				in[name] = f
				continue
			}
		}
		return errs.New(errs.Type, "compiler option %s must be a string, bool, int of 64 bits or float", name)
	}
	return nil
}
