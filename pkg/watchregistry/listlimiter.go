package watchregistry

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// maxConcurrentLists is how many lists of one cluster run at a time: during each, the API
// server and this process hold all objects of a kind in memory.
const maxConcurrentLists = 16

// listLimiter bounds how many lists of one cluster run at a time. It is safe for concurrent
// use.
type listLimiter struct{ slots *semaphore.Weighted }

func newListLimiter() *listLimiter {
	return &listLimiter{slots: semaphore.NewWeighted(maxConcurrentLists)}
}

// listSlot is the slot of a list that is running. A list without progress for
// silenceTimeout loses its slot, so that the lists of other kinds continue while the API server
// leaves one unanswered.
type listSlot struct {
	limiter   *listLimiter
	onSilence func()

	// mu guards the fields below.
	mu    sync.Mutex
	timer *time.Timer
	// listEnded is whether the list has ended, released whether the slot is free again.
	listEnded, released bool
}

// acquire waits for a slot. silent is called whenever the list that holds it makes no
// progress for silenceTimeout.
func (l *listLimiter) acquire(ctx context.Context, silent func()) (*listSlot, error) {
	if err := l.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	p := &listSlot{limiter: l, onSilence: silent}
	p.mu.Lock() // the timer may fire at once
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(silenceTimeout, p.silenceElapsed)
	return p, nil
}

func (p *listSlot) silenceElapsed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.listEnded {
		p.onSilence()
		p.releaseLocked()
	}
}

// progress records that the list makes progress.
func (p *listSlot) progress() { p.timer.Reset(silenceTimeout) }

// release ends the list and frees its slot. It may be called more than once, and on nil.
func (p *listSlot) release() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listEnded = true
	p.timer.Stop()
	p.releaseLocked()
}

func (p *listSlot) releaseLocked() {
	if !p.released {
		p.released = true
		p.limiter.slots.Release(1)
	}
}
