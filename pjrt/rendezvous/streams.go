package rendezvous

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Segment says what a member exchanges with others, in order: Items from place From on of a stream. All
// that take part in a stream must do the same in the same order, in whichever portions.
type Segment struct {
	Stream string
	From   int64
	Items  []string
}

// How much of what was said is remembered: the latest places of each stream.
const (
	maxStreams = 1 << 12
	maxPlaces  = 1 << 14
)

// maxPosition is the last place at which a segment may begin.
const maxPosition = 1 << 62

// word is what a member has said first of a place; the empty one stands for a gap.
type word struct {
	member int
	item   string
}

// stream is what was said of the places from first on.
type stream struct {
	first int64
	words []word
}

// streams is what members have said, by stream.
type streams map[string]*stream

// add notes what a member says of a stream and returns what contradicts it.
func (all streams) add(member int, seg Segment) error {
	s := all[seg.Stream]
	if s == nil {
		if len(all) == maxStreams {
			return nil // not compared
		}
		s = &stream{first: seg.From}
		all[seg.Stream] = s
	}
	for i, item := range seg.Items {
		at := seg.From + int64(i)
		if at < s.first {
			continue // forgotten
		}
		s.reach(at)
		switch first := &s.words[at-s.first]; {
		case first.item == "":
			*first = word{member, item}
		case first.item != item:
			return fmt.Errorf("the processes do not exchange the same: number %d of %s is %s in process %d and %s in process %d",
				at+1, seg.Stream, first.item, first.member, item, member)
		}
	}
	return nil
}

// reach makes the words end behind a place, or later, and forgets the oldest if there are too many.
func (s *stream) reach(at int64) {
	if at-s.first >= int64(len(s.words))+maxPlaces {
		s.first, s.words = at, s.words[:0]
	}
	for at-s.first >= int64(len(s.words)) {
		s.words = append(s.words, word{})
	}
	if old := len(s.words) - maxPlaces; old >= maxPlaces {
		s.words = slices.Clone(s.words[old:])
		s.first += int64(old)
	}
}

// report notes what the member exchanges.
func (s *session) report(m message) ([]byte, error) {
	var segments []Segment
	if err := json.Unmarshal(m.value, &segments); err != nil {
		return nil, errMalformed
	}
	for _, seg := range segments {
		if seg.From < 0 || seg.From > maxPosition {
			return nil, errMalformed
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range segments {
		if err := s.streams.add(s.member, seg); err != nil {
			s.fail(err)
		}
	}
	return nil, s.failure
}

// beat notes that the member lives, how far it has come, and for how long it may say nothing.
func (s *session) beat(m message) ([]byte, error) {
	var positions map[string]int64
	if err := json.Unmarshal(m.value, &positions); err != nil {
		return nil, errMalformed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.members[s.member]
	if p == nil {
		return nil, nil
	}
	p.patience = max(0, timeoutOf(m))
	for name, n := range positions {
		if _, known := p.positions[name]; known || len(p.positions) < maxStreams {
			p.positions[name] = n
		}
	}
	return nil, nil
}

// positions is how far the members have come in a stream.
func (s *session) positions(stream string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reached := make(map[int]int64)
	for m, p := range s.members {
		if n, ok := p.positions[stream]; ok {
			reached[m] = n
		}
	}
	return json.Marshal(reached)
}

// look finds the members that have said nothing for too long: they have stopped.
func (t *table) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.awake.Tick()
	for m, p := range t.members {
		if silence := now - p.heard; !p.gone && p.patience > 0 && silence > p.patience {
			t.fail(fmt.Errorf("process %d has said nothing for %v: it has stopped, or its machine has", m, p.patience))
			p.session.conn.Close()
		}
	}
}

// Have names processes as the subject of a sentence: "process 1 has", "processes 1, 2 have".
func Have(members []int) string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = strconv.Itoa(m)
	}
	if len(members) == 1 {
		return "process " + names[0] + " has"
	}
	return "processes " + strings.Join(names, ", ") + " have"
}
