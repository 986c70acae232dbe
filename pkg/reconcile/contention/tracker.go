package contention

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// Window is the time of a count of the reverts of a field, the time of a contention at firstHealRate, and the time without
	// changes that ends a contention.
	Window = time.Minute
	// HealBurst is how many heals of an object are undelayed.
	HealBurst = 100
	// firstHealRate and lastingHealRate are how many heals of an object a second are
	// possible beyond the burst: in the first minute of a contention, and after it.
	firstHealRate, lastingHealRate rate.Limit = 10, 1
	// enough is the part of a token that suffices for a heal: a result of arithmetic with times lacks a little.
	enough = 1 - 1e-6
)

// Tracker counts the heals of one object. An object is contended once a field of it
// was reverted too often within Window. Its heals are delayed only under
// sustained load: each takes a token of a bucket, which starts full and is full again
// after a minute without heals.
type Tracker struct {
	// reverts are the times of the reverts of each field within Window; nil once the object is contended.
	reverts map[string][]time.Time
	bucket  *rate.Limiter
	// Began is when the object became contended; else zero.
	Began time.Time
	// LastHeal is when the object was last healed.
	LastHeal time.Time
	// NotBefore is when a delayed object may be healed again; else zero.
	NotBefore time.Time
	// Due is when the heal of the next change is due, at the time of the last heal.
	Due time.Time
	// Delayed reports that a heal was delayed since the object became contended.
	Delayed bool
	// Key is where the object was when it was last healed.
	Key trigger.ObjectKey
	// field is the field that was reverted too often; its path is empty for the object as a whole, or if it is unknown after a
	// restart. Reverted is the number of its reverts.
	field    ownership.Change
	Reverted int
}

// New returns the contention of an object that was not healed lately.
func New() *Tracker {
	return &Tracker{reverts: map[string][]time.Time{}, bucket: rate.NewLimiter(firstHealRate, HealBurst)}
}

// Restored returns the contention of an object that was contended when an
// earlier process wrote the status. Its bucket is full again, but the first minute is not
// repeated.
func Restored(now time.Time) *Tracker {
	return &Tracker{
		bucket: rate.NewLimiter(lastingHealRate, HealBurst), Began: now.Add(-Window), LastHeal: now,
	}
}

// Contended reports whether the object is contended.
func (c *Tracker) Contended() bool { return c != nil && !c.Began.IsZero() }

// Delays reports whether a heal of the contended object was delayed: it may
// differ from the manifest at times.
func (c *Tracker) Delays() bool { return c.Contended() && c.Delayed }

// DelayedFlush is how much later the status counts the heals of an object if they are
// delayed: hundreds of contended objects share the writes of a status.
const DelayedFlush = 25 * time.Second

// FlushDelay returns how much later than others the status counts a heal.
func (c *Tracker) FlushDelay() time.Duration {
	if c.Delays() {
		return DelayedFlush
	}
	return 0
}

// Healed notes that fields of the object were reverted with a number of requests, and
// reports whether the object is contended from now on. Empty fields are the object as a
// whole. limit is how often a field is reverted within Window without being
// contended.
func (c *Tracker) Healed(fields []ownership.Change, requests, limit int, now time.Time) (begins bool) {
	c.slowDown(now)
	c.bucket.ReserveN(now, requests)
	c.LastHeal, c.NotBefore = now, time.Time{}
	if len(fields) == 0 {
		fields = []ownership.Change{{}}
	}
	if c.Contended() {
		if c.Reverted == 0 { // what is contended is not known after a restart
			c.field, c.Reverted = fields[0], limit
		}
		return false
	}
	c.field, c.Reverted = c.count(fields, limit, now)
	if c.Reverted == 0 && c.bucket.TokensAt(now) < enough { // many fields, each of them not often
		c.Reverted = HealBurst
	}
	if c.Reverted == 0 {
		return false
	}
	c.Began, c.reverts = now, nil
	return true
}

// count counts the reverts of fields. It returns the first one that was reverted more
// than limit times within Window, and limit; else zero values.
func (c *Tracker) count(fields []ownership.Change, limit int, now time.Time) (ownership.Change, int) {
	maps.DeleteFunc(c.reverts, func(_ string, times []time.Time) bool {
		return now.Sub(times[len(times)-1]) > Window
	})
	for _, field := range fields {
		times := slices.DeleteFunc(c.reverts[field.Path], func(then time.Time) bool { return now.Sub(then) > Window })
		c.reverts[field.Path] = append(times, now)
		if len(c.reverts[field.Path]) > limit {
			return field, limit
		}
	}
	return ownership.Change{}, 0
}

// slowDown lowers the rate of heals when the first minute of a contention is over.
func (c *Tracker) slowDown(now time.Time) {
	ends := c.Began.Add(Window)
	if c.Contended() && c.bucket.Limit() != lastingHealRate && !now.Before(ends) {
		c.bucket.SetLimitAt(ends, lastingHealRate)
	}
}

// Next returns when the bucket allows another heal: now, or a time after it.
func (c *Tracker) Next(now time.Time) time.Time {
	c.slowDown(now)
	tokens := c.bucket.TokensAt(now)
	if tokens >= enough {
		return now
	}
	return now.Add(time.Duration((1 - tokens) / float64(c.bucket.Limit()) * float64(time.Second)))
}

// HealAt returns the time of the heal of a contended object that was changed at since: now, or a time after it. It is healed
// when its bucket and the budget allow it, and in any case before a foreign value stands for maxExposure: the last tenth of it
// is for the request. Heals that must be sent soon are sent now, so that one reconcile sends the heals of many objects. budget
// takes a heal from the budget, if there is one or it must, and returns now or the time of the next question.
func (c *Tracker) HealAt(now, since time.Time, maxExposure time.Duration, budget func(must bool) time.Time) time.Time {
	latest, soon := since.Add(maxExposure-maxExposure/10), maxExposure/20
	if !now.Before(latest.Add(-soon)) {
		return budget(true)
	}
	at := c.Next(now)
	if at.Equal(now) {
		at = budget(false)
	}
	if at.After(latest) {
		return latest
	}
	return at
}

// Over reports whether the object stayed unchanged for so long that its contention has
// ended, and its reverts may be forgotten.
func (c *Tracker) Over(now time.Time) bool { return now.Sub(c.LastHeal) > Window }

// Fields returns the contended fields; nil for the object as a whole.
func (c *Tracker) Fields() []ownership.Change {
	if c.field.Path == "" {
		return nil
	}
	return []ownership.Change{c.field}
}

// stillReverted describes how a contended object is handled.
const stillReverted = "Vidra keeps reverting it, under sustained load less often, but at the latest after spec.drift.maxExposure"

// Describe describes the contention in conditions and Events: the writer, the field that it keeps changing, and the way to end it. After a restart
// these are unknown until the next heal.
func (c *Tracker) Describe(object v1alpha1.IgnoreTarget) string {
	if c.Reverted == 0 {
		return "another writer keeps changing the object. " + stillReverted
	}
	what, who := cmp.Or(c.field.Path, "the object"), cmp.Or(c.field.By(), "another writer")
	text := fmt.Sprintf("%s keeps changing %s: Vidra reverted it more than %d times within a minute. %s", who, what, c.Reverted, stillReverted)
	rule := v1alpha1.IgnoreRule{Target: object}
	switch {
	case c.field.Path == "":
		return text
	case c.field.Pointer != "":
		rule.Paths = []string{c.field.Pointer}
	case c.field.Manager != "":
		rule.Managers = []string{c.field.Manager}
	default:
		return text
	}
	hint, err := json.Marshal(rule)
	if err != nil {
		return text
	}
	text += ". Stop that writer, or leave the field to others: add to spec.drift.ignore " + string(hint)
	if len(rule.Paths) == 0 {
		text += ", which leaves all fields of that field manager; `vidra why` prints the rule for this field alone"
	}
	return text
}
