package bindings

import (
	"encoding/json"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/engine"
)

// ServeStore makes this process serve the store by which the processes of a job find each other, on a host
// of its own, for those who know the secret, and returns its address.
func ServeStore(host, secret string) (string, error) {
	return text(engine.Default.ServeStore(host, secret))
}

// ReachJob makes this process one of a job of count, whose store listens at an address; false if that could not
// be reached within ms milliseconds. It is called before Open.
func ReachJob(index, count int64, address, secret string, ms int64) (bool, error) {
	return flag(engine.Default.ReachJob(int(index), int(count), address, secret, time.Duration(ms)*time.Millisecond))
}

// LeaveJob ends what ReachJob and Open wait for, with an error.
func LeaveJob() { engine.Default.LeaveJob() }

// SetJobTimeout sets for how many milliseconds the processes of a job wait for each other.
func SetJobTimeout(ms int64) {
	engine.Default.SetJobTimeout(time.Duration(ms) * time.Millisecond)
}

// Exchange gives some processes of the job, a JSON list of their numbers, a text, under a tag, and returns a
// JSON list of all of theirs; "" after ms milliseconds: then call it again.
func Exchange(tag, value, processes string, ms int64) (string, error) {
	var members []int
	if err := json.Unmarshal([]byte(processes), &members); err != nil {
		return "", err
	}
	return text(engine.Default.Exchange(tag, value, members, time.Duration(ms)*time.Millisecond))
}
