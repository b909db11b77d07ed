package engine

import (
	"strconv"
	"sync"
)

// locations interns source lines; the number of a line travels with the ops that it recorded.
type locations struct {
	mu    sync.Mutex       // guards the other fields
	index map[string]int32 // grows with Location
	text  []string         // grows with Location
}

// number is the number of a source line, from 1.
func (l *locations) number(file string, line int) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := file + ":" + strconv.Itoa(line)
	if id, ok := l.index[key]; ok {
		return id
	}
	if l.index == nil {
		l.index = make(map[string]int32)
	}
	l.text = append(l.text, key)
	id := int32(len(l.text))
	l.index[key] = id
	return id
}

// Where is the text "file:line" of a location; "" for 0.
func (l *locations) Where(id int32) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id <= 0 || int(id) > len(l.text) {
		return ""
	}
	return l.text[id-1]
}
