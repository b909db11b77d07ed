// Package cache is a map from keys to values, bounded in number and in bytes, of which the least recently used leaves
// first.
//
// Compiled programs live in one. A value that is being built is stored at once and builds itself at first use: however
// many ask, there is one build a key. The package imports nothing of the project.
package cache

import (
	"container/list"
	"sync"
)

// Cache is the map. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	limit int
	room  int64   // bytes
	drop  func(V) // called without mu

	mu    sync.Mutex // guards the fields below
	taken int64      // bytes
	items map[K]*list.Element
	order *list.List // front: most recently used
}

type item[K comparable, V any] struct {
	key   K
	val   V
	bytes int64
}

// New makes a cache of at most limit values, of at most room bytes together by what Weigh was given; drop, unless
// nil, is called for each value that leaves it.
func New[K comparable, V any](limit int, room int64, drop func(V)) *Cache[K, V] {
	return &Cache[K, V]{limit: max(limit, 1), room: room, items: make(map[K]*list.Element), order: list.New(), drop: drop}
}

// Get returns the value of a key and counts it as used. It allocates nothing.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.items[k]
	if el == nil {
		return v, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*item[K, V]).val, true
}

// Put stores the value of a key, in place of an older one.
func (c *Cache[K, V]) Put(k K, v V) {
	c.mu.Lock()
	var out []V
	if el := c.items[k]; el != nil {
		out = append(out, c.remove(el))
	}
	c.items[k] = c.order.PushFront(&item[K, V]{key: k, val: v})
	out = c.shrink(out)
	c.mu.Unlock()
	c.dropAll(out)
}

// Weigh says how many bytes the value of a key takes, which is known when it has been built; nothing happens if the
// value has left. The value itself may be larger than the cache, and is then the only one until others are used.
func (c *Cache[K, V]) Weigh(k K, bytes int64) {
	c.mu.Lock()
	var out []V
	if el := c.items[k]; el != nil {
		it := el.Value.(*item[K, V])
		c.taken += bytes - it.bytes
		it.bytes = bytes
		out = c.shrink(out)
	}
	c.mu.Unlock()
	c.dropAll(out)
}

// shrink removes what is too much, and adds it to out.
func (c *Cache[K, V]) shrink(out []V) []V {
	for len(c.items) > c.limit || c.taken > c.room && len(c.items) > 1 {
		out = append(out, c.remove(c.order.Back()))
	}
	return out
}

// Remove forgets a key.
func (c *Cache[K, V]) Remove(k K) {
	c.mu.Lock()
	var out []V
	if el := c.items[k]; el != nil {
		out = append(out, c.remove(el))
	}
	c.mu.Unlock()
	c.dropAll(out)
}

// Clear forgets everything.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	var out []V
	for c.order.Len() > 0 {
		out = append(out, c.remove(c.order.Back()))
	}
	c.mu.Unlock()
	c.dropAll(out)
}

func (c *Cache[K, V]) remove(el *list.Element) V {
	it := el.Value.(*item[K, V])
	c.order.Remove(el)
	delete(c.items, it.key)
	c.taken -= it.bytes
	return it.val
}

func (c *Cache[K, V]) dropAll(out []V) {
	if c.drop == nil {
		return
	}
	for _, v := range out {
		c.drop(v)
	}
}

// Each calls f for the values, most recently used first, until it returns false.
func (c *Cache[K, V]) Each(f func(K, V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for el := c.order.Front(); el != nil; el = el.Next() {
		if it := el.Value.(*item[K, V]); !f(it.key, it.val) {
			return
		}
	}
}

// Len is the number of values.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.items)
}
