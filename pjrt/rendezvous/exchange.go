package rendezvous

import (
	"slices"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// exchange is one in which members give a value each and get those of all. It is kept until all who have
// given one have the values, or their connections have ended.
type exchange struct {
	members []int
	values  map[int][]byte
	holders map[*session]bool // who has given a value and does not have the others' yet
	bytes   int
}

// exchange gives a member's value and waits for those of the others.
func (s *session) exchange(m message) (list []byte, err error) {
	timeout := time.Duration(m.numbers[0])
	members, value, err := decodeMembers(m.value, m.numbers[1])
	if err != nil {
		return nil, err
	}
	x, err := s.give(m.key, members, value)
	if err != nil {
		return nil, err
	}
	complete, err := s.await(timeout, func() (bool, error) {
		if len(x.values) == len(members) {
			return true, nil
		}
		return false, s.gone(x.missing()...)
	})
	if complete && s.member == 0 {
		// It may serve the store: it stays until all others have the values.
		_, err = s.await(timeout, func() (bool, error) { return len(x.holders) == 1, nil })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !complete || err != nil || s.member == 0 {
		s.leave(m.key, x)
	}
	if !complete && err == nil {
		err = refusal(pjrt.DeadlineExceeded, "%s not come within %v", Have(x.missing()), timeout)
	}
	if err != nil {
		return nil, err
	}
	all := make([][]byte, len(members))
	for i, member := range members {
		all[i] = x.values[member]
	}
	return encodeList(all), nil
}

// give finds the exchange of a tag, or begins it, and adds the member's value.
func (s *session) give(tag string, members []int, value []byte) (*exchange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(members, s.member) {
		return nil, refusal(pjrt.InvalidArgument, "process %d is none of %v", s.member, members)
	}
	x := s.exchanges[tag]
	switch {
	case x == nil:
		x = &exchange{members: members, values: make(map[int][]byte), holders: make(map[*session]bool)}
	case !slices.Equal(x.members, members):
		return nil, refusal(pjrt.InvalidArgument, "process %d exchanges among %v, another one among %v", s.member, members, x.members)
	case !slices.Contains(x.missing(), s.member):
		return nil, refusal(pjrt.AlreadyExists, "process %d has given its value", s.member)
	}
	if err := s.hold(len(value)); err != nil {
		return nil, err
	}
	x.values[s.member], x.holders[s] = value, true
	x.bytes += len(value)
	s.exchanges[tag] = x
	s.wake()
	return x, nil
}

// leave notes that a member needs the exchange no more; with the last it is forgotten. The caller holds mu.
func (s *session) leave(tag string, x *exchange) {
	if !x.holders[s] {
		return
	}
	delete(x.holders, s)
	if len(x.holders) == 0 && s.exchanges[tag] == x {
		delete(s.exchanges, tag)
		s.held -= x.bytes
	}
	s.wake()
}

// taken notes that the values of an exchange have arrived.
func (s *session) taken(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.exchanges[tag]; x != nil && len(x.values) == len(x.members) {
		s.leave(tag, x)
	}
}

// missing are the members that have not given a value.
func (x *exchange) missing() (members []int) {
	for _, m := range x.members {
		if _, given := x.values[m]; !given {
			members = append(members, m)
		}
	}
	return members
}
