package watchregistry

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// maxLists is how many lists of one cluster are under way at a time: each has
// the API server, and this process, hold all objects of a kind.
const maxLists = 16

// lists are the places for lists under way in one cluster. It is safe for
// concurrent use.
type lists struct{ places *semaphore.Weighted }

func newLists() *lists { return &lists{places: semaphore.NewWeighted(maxLists)} }

// place is held by a list that is under way. What goes on without a sign gives
// it up, so that kinds that are not answered cannot keep others from being listed.
type place struct {
	lists  *lists
	silent func()

	// mu guards timer, left and given.
	mu    sync.Mutex
	timer *time.Timer
	// left is whether the list has ended; given is whether the place was given
	// back.
	left, given bool
}

// enter waits for a place. silent is called whenever the list that holds it
// goes on for the time of silence without a sign.
func (l *lists) enter(ctx context.Context, silent func()) (*place, error) {
	if err := l.places.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	p := &place{lists: l, silent: silent}
	p.mu.Lock() // the timer may fire at once
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(silence, p.fallSilent)
	return p, nil
}

func (p *place) fallSilent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.left {
		p.silent()
		p.giveLocked()
	}
}

// sign notes that the list makes progress.
func (p *place) sign() { p.timer.Reset(silence) }

// leave ends the list. It may be called more than once, and on nil.
func (p *place) leave() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	p.timer.Stop()
	p.giveLocked()
}

func (p *place) giveLocked() {
	if !p.given {
		p.given = true
		p.lists.places.Release(1)
	}
}
