// Package relation answers which owners need a thing, and which things an owner needs. The package
// starts no goroutine and calls nothing back.
package relation

import (
	"iter"
	"maps"
	"slices"
	"sync"
)

// Relation is a set of pairs of an owner and a key that the owner needs. Both directions take the time
// of their result. The zero value is empty and ready to use.
//
// Only one goroutine may use it at a time. The mutex of its user guards it, with the values that the user keeps for each key, so
// that both change together. Owners and Keys return copies: a caller releases the mutex before it calls the owners.
type Relation[O, K comparable] struct {
	keys   map[O]map[K]struct{}
	owners map[K]map[O]struct{}
}

// Add has owner need a key. It reports whether the key is new for owner.
func (r *Relation[O, K]) Add(owner O, key K) bool {
	if _, known := r.keys[owner][key]; known {
		return false
	}
	if r.keys == nil {
		r.keys, r.owners = map[O]map[K]struct{}{}, map[K]map[O]struct{}{}
	}
	insert(r.keys, owner, key)
	insert(r.owners, key, owner)
	return true
}

// Set has owner need exactly keys. It returns the keys that it needs since, and those that it has
// stopped needing. Without keys, the owner is forgotten.
func (r *Relation[O, K]) Set(owner O, keys iter.Seq[K]) (added, removed []K) {
	wanted := map[K]struct{}{}
	for key := range keys {
		wanted[key] = struct{}{}
		if r.Add(owner, key) {
			added = append(added, key)
		}
	}
	for key := range r.keys[owner] {
		if _, still := wanted[key]; !still {
			removed = append(removed, key)
		}
	}
	for _, key := range removed {
		erase(r.keys, owner, key)
		erase(r.owners, key, owner)
	}
	return added, removed
}

// Release forgets an owner. It returns the keys that the owner needed.
func (r *Relation[O, K]) Release(owner O) []K {
	keys := r.Keys(owner)
	for _, key := range keys {
		erase(r.owners, key, owner)
	}
	delete(r.keys, owner)
	return keys
}

// Drop forgets a key. It returns the owners that needed the key.
func (r *Relation[O, K]) Drop(key K) []O {
	owners := r.Owners(key)
	for _, owner := range owners {
		erase(r.keys, owner, key)
	}
	delete(r.owners, key)
	return owners
}

// Owners returns the owners that need a key, unordered.
func (r *Relation[O, K]) Owners(key K) []O { return slices.Collect(maps.Keys(r.owners[key])) }

// Keys returns the keys that owner needs, unordered.
func (r *Relation[O, K]) Keys(owner O) []K { return slices.Collect(maps.Keys(r.keys[owner])) }

// Needed reports whether any owner needs a key.
func (r *Relation[O, K]) Needed(key K) bool { return len(r.owners[key]) > 0 }

// All returns every key that an owner needs, unordered. Keys may be dropped meanwhile.
func (r *Relation[O, K]) All() iter.Seq[K] { return maps.Keys(r.owners) }

// Shared is a Relation without further values for its keys. It is safe for concurrent use. The zero value is empty and ready to use.
type Shared[O, K comparable] struct {
	mu  sync.Mutex
	all Relation[O, K]
}

// Set has owner need exactly keys, and returns those that are new. Without keys, the owner is forgotten.
func (s *Shared[O, K]) Set(owner O, keys iter.Seq[K]) (added []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	added, _ = s.all.Set(owner, keys)
	return added
}

// Owners returns the owners that need a key, unordered.
func (s *Shared[O, K]) Owners(key K) []O {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Owners(key)
}

// insert adds a value to one of the sets.
func insert[A, B comparable](sets map[A]map[B]struct{}, of A, value B) {
	if sets[of] == nil {
		sets[of] = map[B]struct{}{}
	}
	sets[of][value] = struct{}{}
}

// erase removes a value from one of the sets, and the set if it is empty.
func erase[A, B comparable](sets map[A]map[B]struct{}, of A, value B) {
	delete(sets[of], value)
	if len(sets[of]) == 0 {
		delete(sets, of)
	}
}
