package contention

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// contendedHealRate and contendedHealBurst bound the heals a second of all contended
	// objects together, so that other heals are unaffected: 500 objects are healed
	// within spec.drift.maxExposure, 10 s by default.
	contendedHealRate, contendedHealBurst = 56, 200
	// budgetPause is the least time, budgetWindow the longest, after which a
	// VidraResource asks the budget again. One that is silent for a little longer
	// is left out.
	budgetPause, budgetWindow = 500 * time.Millisecond, 10 * time.Second
)

// Budget shares the heals of contended objects among the VidraResources. Each has an equal share, so that one with hundreds of
// contended objects leaves the heals of the others undelayed. Any of them gets the unused part of the shares. The zero value is
// ready. It is safe for concurrent use.
type Budget struct {
	// mu guards the fields below.
	mu sync.Mutex
	// pool counts all heals; its tokens are free for any VidraResource.
	pool *rate.Limiter
	// shares are the shares of the VidraResources that asked lately.
	shares map[trigger.Owner]*healShare
	// cleaned is when unused shares were last dropped.
	cleaned time.Time
}

// healShare is the guaranteed part of one VidraResource.
type healShare struct {
	limiter *rate.Limiter
	asked   time.Time
}

// Take takes one heal for a contended object of owner, if there is one or it must. It
// returns now, or when owner is to ask again.
func (b *Budget) Take(owner trigger.Owner, now time.Time, must bool) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	share := b.shareLocked(owner, now)
	switch {
	case must, share.limiter.TokensAt(now) >= enough:
		spend(share.limiter, now)
		spend(b.pool, now)
		return now
	case b.pool.AllowN(now, 1):
		return now
	}
	return share.again(now)
}

// Next returns when owner can take a heal for a contended object: now, or when it is to ask.
func (b *Budget) Next(owner trigger.Owner, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	share := b.shareLocked(owner, now)
	if share.limiter.TokensAt(now) >= enough || b.pool.TokensAt(now) >= enough {
		return now
	}
	return share.again(now)
}

// again returns when a VidraResource that was refused is to ask again.
func (s *healShare) again(now time.Time) time.Time {
	missing := time.Duration((1 - s.limiter.TokensAt(now)) / float64(s.limiter.Limit()) * float64(time.Second))
	return now.Add(min(max(missing, budgetPause), budgetWindow))
}

// spend takes a token, or owes it. The debt is bounded: forced heals can exceed the budget for hours.
func spend(from *rate.Limiter, now time.Time) {
	if from.TokensAt(now) > -float64(from.Burst()) {
		from.ReserveN(now, 1)
	}
}

// shareLocked returns the share of owner, as large as it is with the owners that there are
// now.
func (b *Budget) shareLocked(owner trigger.Owner, now time.Time) *healShare {
	if b.shares == nil {
		b.shares, b.pool = map[trigger.Owner]*healShare{}, rate.NewLimiter(contendedHealRate, contendedHealBurst)
	}
	if now.Sub(b.cleaned) > time.Second {
		b.cleaned = now
		for other, s := range b.shares {
			if now.Sub(s.asked) > budgetWindow+2*time.Second {
				delete(b.shares, other)
			}
		}
	}
	share, known := b.shares[owner]
	if !known {
		share = &healShare{}
		b.shares[owner] = share
	}
	share.asked = now
	limit, burst := rate.Limit(contendedHealRate/float64(len(b.shares))), max(1, contendedHealBurst/len(b.shares))
	if !known {
		share.limiter = rate.NewLimiter(limit, burst)
	}
	share.limiter.SetLimitAt(now, limit)
	share.limiter.SetBurstAt(now, burst)
	return share
}
