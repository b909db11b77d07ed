package rendezvous

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"
)

func FuzzDecode(f *testing.F) {
	for _, m := range []message{
		{id: 1, op: opPut, key: "key", value: []byte("value")},
		{id: 2, op: opGet, key: "key", numbers: [2]int64{1e9}},
		{id: 3, op: opExchange, key: "tag", numbers: [2]int64{1, 2}, value: encodeMembers([]int{0, 1}, []byte("v"))},
		{op: opReport, value: []byte(`[{"Stream":"s","From":0,"Items":["x"]}]`)},
	} {
		f.Add(m.encode()[4:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		if again := m.encode(); !bytes.Equal(again[4:], b) || int(binary.LittleEndian.Uint32(again)) != len(b) {
			t.Errorf("%q becomes %q", b, again)
		}
		if list, err := decodeList(m.value); err == nil && !bytes.Equal(encodeList(list), m.value) {
			t.Errorf("the list %q becomes %q", m.value, encodeList(list))
		}
		if members, value, err := decodeMembers(m.value, m.numbers[1]); err == nil && !bytes.Equal(encodeMembers(members, value), m.value) {
			t.Errorf("%q becomes %q", m.value, encodeMembers(members, value))
		}
	})
}

// end is one side of a connection in memory.
type end struct {
	net.Conn
	in  *bytes.Reader
	out bytes.Buffer
}

func (e *end) Read(p []byte) (int, error)      { return e.in.Read(p) }
func (e *end) Write(p []byte) (int, error)     { return e.out.Write(p) }
func (e *end) Close() error                    { return nil }
func (e *end) SetDeadline(time.Time) error     { return nil }
func (e *end) SetReadDeadline(time.Time) error { return nil }

// FuzzHandshake: whatever strangers say, no one is admitted, and whatever servers say, no one is believed.
func FuzzHandshake(f *testing.F) {
	f.Add(make([]byte, claimSize))
	f.Add(append([]byte(magic), make([]byte, nonceSize+verdictSize)...))
	f.Add(append(append([]byte(magic), make([]byte, nonceSize)...), stranger, 3, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		admitted := func(m Member) error {
			t.Errorf("%v is admitted", m)
			return nil
		}
		if m, err := examine(&end{in: bytes.NewReader(b)}, "address", []byte(secret), admitted); err == nil {
			t.Errorf("%v is served", m)
		}
		if err := prove(&end{in: bytes.NewReader(b)}, "address", []byte(secret), Member{0, 2}); err == nil {
			t.Error("the server is believed")
		}
	})
}

// FuzzRequests: whatever a member sends, the store answers the others, and holds no more than it may.
func FuzzRequests(f *testing.F) {
	add := func(messages ...message) {
		var b []byte
		for _, m := range messages {
			b = append(b, m.encode()...)
		}
		f.Add(b)
	}
	add(message{op: opPut, key: "key", value: []byte("value")}, message{op: opGet, key: "key"})
	add(message{op: opExchange, key: "tag", numbers: [2]int64{1, 1}, value: encodeMembers([]int{1}, nil)}, message{op: opTaken, key: "tag"})
	add(message{op: opExchange, key: "tag", numbers: [2]int64{1 << 40, 2}, value: encodeMembers([]int{0, 1}, nil)})
	add(message{op: opReport, value: []byte(`[{"Stream":"s","From":-9223372036854775808,"Items":["x"]},{"Stream":"s","From":9223372036854775807,"Items":["x","y"]}]`)})
	add(message{op: opBeat, numbers: [2]int64{1 << 40}, value: []byte(`{"s":1}`)}, message{op: opPositions, key: "s"}, message{op: opFailure})
	f.Fuzz(func(t *testing.T, b []byte) {
		table := newTable()
		table.room = 1 << 16
		s := &session{table: table, conn: &end{}, member: noMember, ended: make(chan struct{}), pending: make(chan struct{}, maxPending)}
		if err := table.admit(s, Member{1, 2}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			in := bytes.NewReader(b)
			for {
				m, err := read(in, 1<<20)
				if err != nil {
					return
				}
				m.numbers[0] = min(m.numbers[0], int64(time.Millisecond))
				if m.op != opFailure {
					_, _ = s.do(m)
				}
			}
		}()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatal("a request does not end")
		}
		s.end()
		table.mu.Lock()
		defer table.mu.Unlock()
		if table.held < 0 || table.held > table.room || len(table.exchanges) != 0 {
			t.Errorf("%d bytes are held, %d exchanges", table.held, len(table.exchanges))
		}
	})
}
