package rendezvous

import (
	"errors"
	"fmt"
	"time"
)

// Segment says what a member exchanges with others, in order: Items from place From on of a stream. All
// that take part in a stream must do the same in the same order, in whichever portions.
type Segment struct {
	Stream string
	From   int64
	Items  []string
}

type place struct {
	stream string
	at     int64
}

type word struct {
	member int
	item   string
}

// streams is what members have said.
type streams struct {
	said    map[place]word // by who said it first
	failure error          // the first contradiction
}

// add notes segments; the first contradiction stays.
func (s *streams) add(member int, segments []Segment) {
	for _, seg := range segments {
		for i, item := range seg.Items {
			at := place{seg.Stream, seg.From + int64(i)}
			first, known := s.said[at]
			if !known {
				s.said[at] = word{member, item}
			} else if first.item != item && s.failure == nil {
				s.failure = fmt.Errorf("the processes do not exchange the same: number %d of %s is %s in process %d and %s in process %d",
					at.at+1, at.stream, first.item, first.member, item, member)
			}
		}
	}
}

// Report notes what the member exchanges.
func (s *session) Report(segments []Segment, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams.add(s.member, segments)
	if s.streams.failure != nil {
		s.wake()
	}
	return s.streams.failure
}

// Contradiction waits for one among the reports.
func (s *session) Contradiction(timeout time.Duration, out *Found) (err error) {
	out.OK, err = s.await(timeout, func() (bool, error) {
		if f := s.streams.failure; f != nil {
			out.Value = []byte(f.Error())
			return true, nil
		}
		return false, nil
	})
	return err
}

// Report says what this process exchanges with others. It is an error if that, or what was reported
// before, is not what the others have reported.
func (s *Store) Report(segments []Segment) error { return s.call("Report", segments, &struct{}{}) }

// Contradiction waits for reports that do not fit together and returns what is wrong, or nil when the
// store has gone.
func (s *Store) Contradiction() error {
	for {
		var found Found
		if err := s.call("Contradiction", time.Hour, &found); err != nil {
			return nil
		}
		if found.OK {
			return errors.New(string(found.Value))
		}
	}
}
