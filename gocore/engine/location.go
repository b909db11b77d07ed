package engine

import (
	"strconv"
	"sync"
)

// locations interns source lines; the number of a line travels with the ops that it recorded.
type locations struct {
	mu    sync.Mutex
	index map[string]int32
	text  []string
}

// Location is the number of a source line, from 1.
func (e *Engine) Location(file string, line int) int32 {
	l := &e.where
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
func (e *Engine) Where(id int32) string {
	l := &e.where
	l.mu.Lock()
	defer l.mu.Unlock()
	if id <= 0 || int(id) > len(l.text) {
		return ""
	}
	return l.text[id-1]
}
