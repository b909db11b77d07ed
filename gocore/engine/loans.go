package engine

import (
	"sync"
)

// loans are the arrays in host memory that storages have for their values, by number. Its lock is held for moments
// only: the plugin's threads take it.
type loans struct {
	mu       sync.Mutex
	last     int64   // guarded by mu; Borrow counts it up
	returned []int64 // guarded by mu; a buffer that is freed adds to it, Returned empties it
}

// lend numbers an array.
func (l *loans) lend() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return l.last
}

// take takes the numbers of the arrays that are free.
func (l *loans) take() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := l.returned
	l.returned = nil
	return ids
}

// give says that an array is free for other use.
func (l *loans) give(id int64) {
	l.mu.Lock()
	l.returned = append(l.returned, id)
	l.mu.Unlock()
}
