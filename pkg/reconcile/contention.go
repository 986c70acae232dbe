package reconcile

import (
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
	// contentionWindow is the time within which the reverts of a field are counted, for
	// which a contention is healed at firstHealRate, and for which an object must stay
	// unchanged until its contention is over.
	contentionWindow = time.Minute
	// healBurst is how many heals of an object are never delayed.
	healBurst = 100
	// firstHealRate and lastingHealRate are how many heals of an object a second are
	// possible beyond the burst: in the first minute of a contention, and after it.
	firstHealRate, lastingHealRate rate.Limit = 10, 1
	// enough is how much of a token is enough to heal: what is computed with times
	// lacks a little.
	enough = 1 - 1e-6
)

// contention counts the heals of one object. An object is contended once a field of it
// was reverted too often within contentionWindow. Its heals are delayed only under
// sustained load: each takes a token of a bucket, which starts full and is full again
// after a minute without heals.
type contention struct {
	// reverts are the times within contentionWindow at which each field was reverted;
	// nil once the object is contended.
	reverts map[string][]time.Time
	bucket  *rate.Limiter
	// began is when the object became contended; zero if it is not.
	began time.Time
	// lastHeal is when the object was last healed.
	lastHeal time.Time
	// notBefore is when the object may be healed again; zero if its heal is not delayed.
	notBefore time.Time
	// delayed reports that a heal was delayed since the object became contended.
	delayed bool
	// key is where the object was when it was last healed.
	key trigger.ObjectKey
	// field is the one that was reverted too often; its path is empty if that is the
	// object as a whole, or not known after a restart. reverted is how often it was.
	field    ownership.Change
	reverted int
	// text describes the contention in conditions and Events.
	text string
}

// newContention returns the contention of an object that was not healed lately.
func newContention() *contention {
	return &contention{reverts: map[string][]time.Time{}, bucket: rate.NewLimiter(firstHealRate, healBurst)}
}

// restoredContention returns the contention of an object that was contended when an
// earlier process wrote the status. Its bucket is full again, but the first minute is not
// repeated.
func restoredContention(now time.Time) *contention {
	return &contention{
		bucket: rate.NewLimiter(lastingHealRate, healBurst), began: now.Add(-contentionWindow), lastHeal: now,
		text: "another writer keeps changing the object. " + stillReverted,
	}
}

// contended reports whether the object is contended.
func (c *contention) contended() bool { return c != nil && !c.began.IsZero() }

// delays reports whether a heal of the contended object was delayed: it is not reliably as
// the manifest says.
func (c *contention) delays() bool { return c.contended() && c.delayed }

// delayedFlush is how much later the status counts the heals of an object if they are
// delayed: hundreds of contended objects are not hundreds of writes of a status.
const delayedFlush = 25 * time.Second

// flushDelay returns how much later than others the status counts a heal.
func (c *contention) flushDelay() time.Duration {
	if c.delays() {
		return delayedFlush
	}
	return 0
}

// healed notes that fields of the object were reverted with a number of requests, and
// reports whether the object is contended from now on. No fields are the object as a
// whole. limit is how often a field is reverted within contentionWindow without being
// contended.
func (c *contention) healed(fields []ownership.Change, requests, limit int, now time.Time) (begins bool) {
	c.slowDown(now)
	c.bucket.ReserveN(now, requests)
	c.lastHeal, c.notBefore = now, time.Time{}
	if len(fields) == 0 {
		fields = []ownership.Change{{}}
	}
	switch {
	case !c.contended():
	case c.reverted == 0: // what is contended is not known after a restart
		c.field, c.reverted = fields[0], limit
		return false
	default:
		return false
	}
	c.field, c.reverted = c.count(fields, limit, now)
	if c.reverted == 0 && c.bucket.TokensAt(now) < enough { // many fields, each of them not often
		c.reverted = healBurst
	}
	if c.reverted == 0 {
		return false
	}
	c.began, c.reverts = now, nil
	return true
}

// count counts the reverts of fields. It returns the first one that was reverted more
// than limit times within contentionWindow, and limit; nothing if there is none.
func (c *contention) count(fields []ownership.Change, limit int, now time.Time) (ownership.Change, int) {
	maps.DeleteFunc(c.reverts, func(_ string, times []time.Time) bool {
		return now.Sub(times[len(times)-1]) > contentionWindow
	})
	for _, field := range fields {
		times := slices.DeleteFunc(c.reverts[field.Path], func(then time.Time) bool { return now.Sub(then) > contentionWindow })
		c.reverts[field.Path] = append(times, now)
		if len(c.reverts[field.Path]) > limit {
			return field, limit
		}
	}
	return ownership.Change{}, 0
}

// slowDown lowers the rate of heals when the first minute of a contention is over.
func (c *contention) slowDown(now time.Time) {
	ends := c.began.Add(contentionWindow)
	if c.contended() && c.bucket.Limit() != lastingHealRate && !now.Before(ends) {
		c.bucket.SetLimitAt(ends, lastingHealRate)
	}
}

// next returns when the bucket allows another heal: now, or a time after it.
func (c *contention) next(now time.Time) time.Time {
	c.slowDown(now)
	tokens := c.bucket.TokensAt(now)
	if tokens >= enough {
		return now
	}
	return now.Add(time.Duration((1 - tokens) / float64(c.bucket.Limit()) * float64(time.Second)))
}

// healAt returns when a contended object is healed that was changed at since: now, or a
// time after it. It is healed when its bucket and the budget allow it, and whatever they
// say before a foreign value stands for maxExposure: the last tenth of that is for the
// request. Heals that must be sent soon are sent now, so that one reconcile sends those of
// many objects. budget takes a heal from the budget, if there is one or it must, and returns
// now or when to ask again.
func (c *contention) healAt(now, since time.Time, maxExposure time.Duration, budget func(must bool) time.Time) time.Time {
	latest, soon := since.Add(maxExposure-maxExposure/10), maxExposure/20
	if !now.Before(latest.Add(-soon)) {
		return budget(true)
	}
	at := c.next(now)
	if at.Equal(now) {
		at = budget(false)
	}
	if at.After(latest) {
		return latest
	}
	return at
}

// over reports whether the object stayed unchanged for so long that it is not contended
// any more, and its reverts need not be remembered.
func (c *contention) over(now time.Time) bool { return now.Sub(c.lastHeal) > contentionWindow }

// fields returns what is contended; nil if that is the object as a whole.
func (c *contention) fields() []ownership.Change {
	if c.field.Path == "" {
		return nil
	}
	return []ownership.Change{c.field}
}

// stillReverted says what becomes of a contended object.
const stillReverted = "Vidra goes on reverting it, under sustained load less often, but at the latest after spec.drift.maxExposure"

// describe returns who keeps changing what, and how to end it.
func (c *contention) describe(id identity) string {
	what, who := c.field.Path, "another writer"
	if what == "" {
		what = "the object"
	}
	if c.field.Manager != "" {
		who = fmt.Sprintf("%q", c.field.Manager)
	}
	text := fmt.Sprintf("%s keeps changing %s: Vidra reverted it more than %d times within a minute. %s", who, what, c.reverted, stillReverted)
	rule := v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Group: id.Group, Kind: id.Kind, Namespace: id.namespace, Name: id.name}}
	switch {
	case c.field.Path == "":
		return text
	case c.field.Manager != "":
		rule.Managers = []string{c.field.Manager}
	case c.field.Pointer != "":
		rule.Paths = []string{c.field.Pointer}
	default:
		return text
	}
	hint, err := json.Marshal(rule)
	if err != nil {
		return text
	}
	return text + ". Stop that writer, or leave the field to it: add to spec.drift.ignore " + string(hint)
}
