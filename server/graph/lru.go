package graph

import "container/list"

// lru keeps what was used last, within a sum of costs. Not safe for concurrent
// use.
type lru[K comparable, V any] struct {
	most    int // the largest sum of costs
	cost    int
	order   *list.List // of *lruEntry[K, V], last used first
	entries map[K]*list.Element
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
	cost  int
}

func newLRU[K comparable, V any](most int) *lru[K, V] {
	return &lru[K, V]{most: most, order: list.New(), entries: map[K]*list.Element{}}
}

func (l *lru[K, V]) get(key K) (V, bool) {
	e, ok := l.entries[key]
	if !ok {
		var none V
		return none, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*lruEntry[K, V]).value, true
}

// put adds or replaces. What alone costs more than everything may is not kept.
func (l *lru[K, V]) put(key K, value V, cost int) {
	l.remove(key)
	if cost > l.most {
		return
	}
	l.entries[key] = l.order.PushFront(&lruEntry[K, V]{key, value, cost})
	for l.cost += cost; l.cost > l.most; {
		l.remove(l.order.Back().Value.(*lruEntry[K, V]).key)
	}
}

func (l *lru[K, V]) remove(key K) {
	if e, ok := l.entries[key]; ok {
		l.cost -= l.order.Remove(e).(*lruEntry[K, V]).cost
		delete(l.entries, key)
	}
}

func (l *lru[K, V]) clear() {
	l.order.Init()
	clear(l.entries)
	l.cost = 0
}

// each calls f for every value, last used first.
func (l *lru[K, V]) each(f func(V)) {
	for e := l.order.Front(); e != nil; e = e.Next() {
		f(e.Value.(*lruEntry[K, V]).value)
	}
}
