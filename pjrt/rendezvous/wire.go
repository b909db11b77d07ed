package rendezvous

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// What a request may be, and a store may hold, in bytes.
const (
	maxKey   = 64 << 10
	maxValue = 256 << 20
	maxHeld  = 1 << 30 // all values together
	// maxAnswer bounds an answer: the values of an exchange, each with its length.
	maxAnswer = maxHeld + 64<<20
)

// op is what a request asks for.
type op uint8

const (
	opPut       op = iota + 1 // key, value
	opGet                     // key, numbers: timeout → value
	opExchange                // key: tag, numbers: timeout, count; value: members, payload → list of values
	opTaken                   // key: the tag of an exchange whose values have arrived
	opReport                  // value: segments
	opFailure                 // → why the job has failed, once it has
	opBeat                    // numbers: timeout; value: positions
	opPositions               // key: a stream → positions by member
)

func (o op) String() string {
	names := [...]string{"?", "Put", "Get", "Exchange", "Taken", "Report", "Failure", "Beat", "Positions"}
	if int(o) < len(names) {
		return names[o]
	}
	return names[0]
}

// message is a request, or an answer: that has the request's id, a code in place of the op, and a value.
type message struct {
	id      uint64
	op      op
	numbers [2]int64
	key     string
	value   []byte
}

// A message is preceded by its length in 4 bytes. All numbers are little-endian.
const (
	fixed      = 8 + 1 + 2*8 + 4 // of a message, without key and value
	maxRequest = fixed + maxKey + maxValue
)

var errMalformed = errors.New("a malformed message")

// encode is a message as it travels, with its length.
func (m *message) encode() []byte {
	size := fixed + len(m.key) + len(m.value)
	b := make([]byte, 0, 4+size)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint64(b, m.id)
	b = append(b, byte(m.op))
	for _, n := range m.numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.key)))
	b = append(b, m.key...)
	return append(b, m.value...)
}

// decode reads a message without its length. The value shares the memory of b.
func decode(b []byte) (m message, err error) {
	if len(b) < fixed {
		return m, errMalformed
	}
	m.id, m.op = binary.LittleEndian.Uint64(b), op(b[8])
	for i := range m.numbers {
		m.numbers[i] = int64(binary.LittleEndian.Uint64(b[9+8*i:]))
	}
	key := binary.LittleEndian.Uint32(b[fixed-4:])
	if b = b[fixed:]; key > maxKey || int(key) > len(b) {
		return m, errMalformed
	}
	m.key, m.value = string(b[:key]), b[key:]
	return m, nil
}

// read takes a message of up to most bytes from a connection. The memory that it takes is bounded by what
// has arrived, whatever length is announced.
func read(r io.Reader, most int) (message, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	size := int(binary.LittleEndian.Uint32(head[:]))
	if size > most {
		return message{}, fmt.Errorf("a message of %d bytes, more than %d", size, most)
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(size)); err != nil {
		return message{}, err
	}
	return decode(body.Bytes())
}

// encodeList puts byte strings into one.
func encodeList(items [][]byte) []byte {
	size := 0
	for _, item := range items {
		size += 4 + len(item)
	}
	b := make([]byte, 0, size)
	for _, item := range items {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(item)))
		b = append(b, item...)
	}
	return b
}

// decodeList is the inverse of encodeList. The items share the memory of b.
func decodeList(b []byte) ([][]byte, error) {
	var items [][]byte
	for len(b) > 0 {
		if len(b) < 4 {
			return nil, errMalformed
		}
		n := int(binary.LittleEndian.Uint32(b))
		if b = b[4:]; n > len(b) {
			return nil, errMalformed
		}
		items, b = append(items, b[:n]), b[n:]
	}
	return items, nil
}

// encodeMembers puts the processes of an exchange before the value of one of them.
func encodeMembers(members []int, value []byte) []byte {
	b := make([]byte, 0, 4*len(members)+len(value))
	for _, m := range members {
		b = binary.LittleEndian.AppendUint32(b, uint32(m))
	}
	return append(b, value...)
}

// decodeMembers takes count processes, each a different one, from the front of b.
func decodeMembers(b []byte, count int64) (members []int, value []byte, err error) {
	if count < 1 || count > int64(len(b)/4) {
		return nil, nil, errMalformed
	}
	known := make(map[int]bool)
	for i := range int(count) {
		m := int(binary.LittleEndian.Uint32(b[4*i:]))
		if known[m] {
			return nil, nil, errMalformed
		}
		known[m] = true
		members = append(members, m)
	}
	return members, b[4*count:], nil
}

// refusal is an error that an answer carries.
func refusal(code pjrt.Code, format string, args ...any) error {
	return &pjrt.Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// answer is what tells of a result.
func answer(id uint64, value []byte, err error) *message {
	m := &message{id: id, value: value}
	var e *pjrt.Error
	switch {
	case err == nil:
	case errors.As(err, &e):
		m.op, m.value = op(e.Code), []byte(e.Msg)
	default:
		m.op, m.value = op(pjrt.Unavailable), []byte(err.Error())
	}
	return m
}
