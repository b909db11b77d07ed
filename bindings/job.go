package bindings

import (
	"encoding/json"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
)

// ServeStore makes this process serve the store by which the processes of a job find each other, on a host
// of its own, and returns its address.
func ServeStore(host string) (string, error) { return text(engine.Default.ServeStore(host)) }

// Exchange gives some processes of the job, a JSON list of their numbers, a text, under a tag, and returns a
// JSON list of all of theirs; "" after ms milliseconds: then call it again.
func Exchange(tag, value, processes string, ms int64) (string, error) {
	var members []int
	if err := json.Unmarshal([]byte(processes), &members); err != nil {
		return "", err
	}
	return text(engine.Default.Exchange(tag, value, members, time.Duration(ms)*time.Millisecond))
}
