package plan

import (
	"cmp"
	"strconv"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestNoAppointmentIsKeptTwice: a time that has passed is no reason for another pass,
// whatever keeps this one from doing something about it.
func TestNoAppointmentIsKeptTwice(t *testing.T) {
	t.Parallel()
	now := time.Now()
	id := object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "a"}
	d := &desired.Object{ID: id, Key: trigger.ObjectKey{Name: "a"}}
	for name, o := range map[string]Ending{"Stalled": {Stalled: true}, "Blocked": {Blocked: true, Unended: true}, "Failing": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &Planner{
				VR: &v1alpha1.VidraResource{}, Now: now, Scope: Scope{All: true}, Findings: Findings{PendingDrift: map[trigger.ObjectKey]trigger.Cause{d.Key: {}}},
				State: &State{Schedule: Schedule{Resync: now.Add(time.Hour)}, Health: &HealthReport{Ill: []Illness{{
					Health: trigger.Health{Status: kstatus.TerminatingStatus, WaitsSince: now.Add(-2 * ending.Grace).Unix()}, // as of the last check
				}}}, Objects: Objects{Manifest: []*Object{{
					ID: id, Desired: d, Edits: Edits{Drift: &Drift{Decision: policy.Leave(policy.BreakGlass, "", now.Add(-time.Second))},
						Contention: &contention.Tracker{Began: now, LastHeal: now.Add(-2 * contention.Window), NotBefore: now.Add(-time.Second)},
					},
				}}}},
			}
			p.NoteFailures(o)
			next := Earliest(p.Wakes(o))
			require.GreaterOrEqual(t, next.At.Sub(now), limits.RetryMin/2, next.Why)
		})
	}
}

// TestBlockedDeletionIsChecked: a reconcile of some objects, at whose time a deletion counts as blocked, has all of them
// checked.
func TestBlockedDeletionIsChecked(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := &Planner{VR: &v1alpha1.VidraResource{}, Now: now, State: &State{
		Schedule: Schedule{Resync: now.Add(time.Hour)},
		Health: &HealthReport{Ill: []Illness{{
			Health: trigger.Health{Status: kstatus.TerminatingStatus, WaitsSince: now.Add(-2 * ending.Grace).Unix()},
		}}},
	}}
	require.Equal(t, wakeBlocked, Earliest(p.Wakes(Ending{})).Why)
}

func TestEarliest(t *testing.T) {
	t.Parallel()
	now := time.Now()
	cases := map[string]struct {
		reason string
		wakes  []Wake
		want   Wake
	}{
		"First":  {"The first one wakes.", []Wake{{now.Add(2), wakeResync}, {now.Add(1), wakeRetry}, {now.Add(3), wakeFlush}}, Wake{now.Add(1), wakeRetry}},
		"NoTime": {"What is not to be done has no time.", []Wake{{time.Time{}, wakeRetry}, {now, wakeResync}}, Wake{now, wakeResync}},
	}
	for name, tc := range cases {
		require.Equal(t, tc.want, Earliest(tc.wakes), "%s: %s", name, tc.reason)
	}
}

// TestRetry shows when a failure is retried.
func TestRetry(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var r Retry
	require.True(t, r.due(now, false))
	r.Failed(now, true)
	require.WithinRange(t, r.At, now.Add(limits.RetryMin), now.Add(2*limits.RetryMin))
	first := r
	for _, all := range []bool{false, true} {
		r.Failed(now, all)
		require.Equal(t, first, r, "a failure before it is due does not postpone it")
	}
	require.True(t, r.due(r.At.Add(-limits.RetryMin/2), true), "with the retries of other objects")
	require.False(t, r.due(r.At.Add(-1), false), "an edit of another object makes no attempt")
	for range 50 {
		now = r.At
		require.True(t, r.due(now, false))
		r.Failed(now, false)
	}
	require.WithinRange(t, r.At, now.Add(limits.RetryMax), now.Add(limits.RetryMax+limits.RetryMax/4))
}

// TestNoteFailures: each failing object has a time of its own, and a problem that an event ends has none.
func TestNoteFailures(t *testing.T) {
	t.Parallel()
	now := time.Now()
	failing := func(o *Object) { o.Fail(v1alpha1.ReasonPruneFailed, "down") }
	awaiting := func(o *Object) { o.Await(v1alpha1.ReasonSuspended, "") }
	far := Retry{now.Add(time.Minute), 8}
	past := Retry{now.Add(-time.Second), 3}
	for name, tc := range map[string]struct {
		reason string
		// after is the next attempt afterwards, if it differs and is not within a time.
		before, after Retry
		is            func(*Object)
		end           Ending
		some          bool
		// failures counts the failed attempts after it, and within is the least time to the next one; zero for the time before.
		failures int
		within   time.Duration
		wakes    bool
	}{
		"First":      {reason: "The other object has failed for long.", is: failing, failures: 1, within: limits.RetryMin, wakes: true},
		"FirstAlone": {reason: "An edit of it failed.", is: failing, some: true, failures: 1, within: limits.RetryMin, wakes: true},
		"Again":      {reason: "The delay grows.", is: failing, before: past, failures: 4, within: 4 * time.Second, wakes: true},
		"Early":      {reason: "Its time is still to come.", is: failing, before: far, failures: 8, wakes: true},
		"Shared":     {reason: "It was attempted with the others.", is: failing, before: Retry{now.Add(time.Second), 3}, failures: 4, within: 4 * time.Second, wakes: true},
		"Unshared":   {reason: "A reconcile of other objects attempted nothing.", is: failing, some: true, before: Retry{now.Add(time.Second), 3}, failures: 3, wakes: true},
		"Ended":      {reason: "The problem has ended.", is: func(*Object) {}, before: far},
		"Awaited":    {reason: "An event ends it, perhaps before the next attempt may be made.", is: awaiting, before: far, failures: 8, wakes: true},
		"AwaitedNow": {reason: "An event ends it, and an attempt follows. The failures before it count.", is: awaiting, before: past, after: Retry{Failures: 3}, failures: 3},
		"Blocked":    {reason: "Nothing was attempted.", is: failing, before: past, end: Ending{Blocked: true}, failures: 3, wakes: true},
		"Stalled":    {reason: "Nothing was attempted.", is: failing, before: past, end: Ending{Stalled: true}, failures: 3, wakes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &Planner{Env: &Env{Watches: &shown{}}, Settings: &Settings{}, State: &State{}, VR: &v1alpha1.VidraResource{}, Now: now, Scope: Scope{All: !tc.some}}
			other, o := p.State.Objects.Track(object.Identity{Name: "other"}), p.State.Objects.Track(object.Identity{Name: "page"})
			failing(other)
			other.Attempts.Retry = Retry{now.Add(2 * time.Minute), 9}
			o.Attempts.Retry = tc.before
			tc.is(o)
			p.NoteFailures(tc.end)
			require.Equal(t, tc.failures, o.Attempts.Retry.Failures, tc.reason)
			switch at := o.Attempts.Retry.At; {
			case tc.within > 0:
				require.WithinRange(t, at, now.Add(tc.within), now.Add(tc.within+tc.within/4))
			case tc.failures > 0:
				require.Equal(t, cmp.Or(tc.after, tc.before), o.Attempts.Retry)
			}
			require.Equal(t, Retry{now.Add(2 * time.Minute), 9}, other.Attempts.Retry)
			require.Equal(t, tc.wakes, Earliest(p.State.Retries()).At.Before(now.Add(2*time.Minute)))
		})
	}
}

// TestTimeOfAProblem: an object is considered at the time at which its problem ends, however far the next attempt at another one is.
func TestTimeOfAProblem(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := &Planner{Env: &Env{Watches: &shown{}}, Settings: &Settings{}, State: &State{}, Now: now}
	p.State.Schedule.Resync = now.Add(time.Hour)
	other, o := p.State.Objects.Track(object.Identity{Name: "other"}), p.State.Objects.Track(object.Identity{Name: "page"})
	other.Fail(v1alpha1.ReasonPruneFailed, "down")
	o.Fail(v1alpha1.ReasonProgressing, "is being deleted")
	other.Attempts.Retry, o.Attempts.Retry = Retry{now.Add(time.Minute), 8}, Retry{now.Add(time.Minute), 8}
	o.Problem.Until = now
	p.Scope = DecideScope(ScopeInput{
		Now: now, Generations: Generations{1, 1, 1}, Causes: trigger.Causes{Health: true}, Schedule: p.State.Schedule, RetryAt: Earliest(p.State.Retries()).At,
	})
	require.True(t, p.Scope.All)
	require.False(t, p.Waits(o))
	require.True(t, p.Waits(other))
}

// TestManyFailuresShareReconciles: objects that began to fail at different times are retried in few reconciles, and each as often as its delay permits.
func TestManyFailuresShareReconciles(t *testing.T) {
	t.Parallel()
	const objects = 300
	begin := time.Now()
	p := &Planner{Env: &Env{Watches: &shown{}}, Settings: &Settings{}, State: &State{}, VR: &v1alpha1.VidraResource{}, Scope: Scope{All: true}}
	reconciles, attempts := 0, 0
	for p.Now = begin; p.Now.Before(begin.Add(30 * time.Minute)); {
		if n := len(p.State.Objects.ByID); n < objects && !p.Now.Before(begin.Add(time.Duration(n)*time.Second)) {
			p.State.Objects.Track(object.Identity{Name: strconv.Itoa(n)}).Fail(v1alpha1.ReasonPruneFailed, "down")
		}
		late := p.Now.After(begin.Add(20 * time.Minute))
		if late {
			reconciles++
		}
		for o := range p.State.Objects.All() {
			if late && !p.Waits(o) {
				attempts++
			}
		}
		p.NoteFailures(Ending{})
		next := Earliest(p.State.Retries()).At
		require.True(t, next.After(p.Now))
		if n := len(p.State.Objects.ByID); n < objects {
			next = Earliest([]Wake{{At: next}, {At: begin.Add(time.Duration(n) * time.Second)}}).At
		}
		p.Now = next
	}
	require.LessOrEqual(t, reconciles, 11, "one a minute")
	require.GreaterOrEqual(t, attempts, 4*objects, "each one after two minutes and the jitter")
	require.LessOrEqual(t, attempts, 11*objects)
}

// TestBlockedFailures: while nothing can be attempted, the time of the obstacle makes reconciles, and the times of many objects make none.
func TestBlockedFailures(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	p := &Planner{Env: &Env{Watches: &shown{}}, Settings: &Settings{}, State: &State{}, VR: &v1alpha1.VidraResource{}, Now: begin, Scope: Scope{All: true}}
	p.State.Schedule.Resync = begin.Add(time.Hour)
	for n := range 300 {
		o := p.State.Objects.Track(object.Identity{Name: strconv.Itoa(n)})
		o.Fail(v1alpha1.ReasonPruneFailed, "down")
		o.Attempts.Retry = Retry{begin.Add(time.Minute + time.Duration(n)*200*time.Millisecond), 9}
	}
	for _, end := range []Ending{{Blocked: true, Unended: true}, {Blocked: true}} {
		p.Now = begin
		reconciles := 0
		for ; p.Now.Before(begin.Add(10 * time.Minute)); reconciles++ {
			p.NoteFailures(end)
			next := Earliest(p.Wakes(end)).At
			require.True(t, next.After(p.Now))
			p.Now = next
		}
		require.LessOrEqual(t, reconciles, 15)
	}
	require.False(t, p.Waits(p.State.Objects.ByID[object.Identity{Name: "0"}]), "it is attempted when the obstacle has ended")
}
