package bindings

import (
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
)

// ServeStore makes this process serve the store by which the processes of a job find each other, on a host
// of its own, and returns its address.
func ServeStore(host string) (string, error) { return text(engine.Default.ServeStore(host)) }

// Exchange gives every process of the job a text, under a tag, and returns a JSON list of all of them; ""
// after ms milliseconds: then call it again.
func Exchange(tag, value string, ms int64) (string, error) {
	return text(engine.Default.Exchange(tag, value, time.Duration(ms)*time.Millisecond))
}
