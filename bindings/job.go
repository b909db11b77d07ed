package bindings

import "github.com/torch-go-xla/torch-go-xla/gocore/engine"

// ServeStore makes this process serve the store by which the processes of a job find each other, and returns its
// address. The store listens on a host of this machine's, and answers those who know the secret.
func ServeStore(host, secret string) (string, error) {
	return result(engine.Default.ServeStore(host, secret))
}

// ReachJob makes this process one of a job of count, whose store listens at an address; false if that could not
// be reached within limit milliseconds. It is called before OpenDevice.
func ReachJob(index, count int64, address, secret string, limit int64) (bool, error) {
	return result(engine.Default.ReachJob(int(index), int(count), address, secret, milliseconds(limit)))
}

// LeaveJob ends what ReachJob and OpenDevice wait for, with an error.
func LeaveJob() { engine.Default.LeaveJob() }

// LimitJob sets for how many milliseconds the processes of a job wait for each other.
func LimitJob(timeout int64) { engine.Default.SetJobTimeout(milliseconds(timeout)) }

// Exchange gives some processes of the job a text, under a tag, and returns those of all; they do so with the same
// tags. ValueError if this process is not one of them.
//
//control:open
func Exchange(tag, value string, members, nMembers, ms int64) (list string, err error) {
	processes := make([]int, nMembers)
	for i, m := range words(members, nMembers) {
		processes[i] = int(m)
	}
	texts, err := engine.Default.Exchange(tag, value, processes, milliseconds(ms))
	if texts == nil {
		return result("", err)
	}
	return encoded(texts, err)
}
