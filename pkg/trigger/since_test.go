package trigger

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSince is about Cause.Since, from which the duration of a heal is measured: the time at which the
// operator received the event of the first change that is not reverted.
func TestSince(t *testing.T) {
	cases := map[string]struct {
		reason string
		// edits are what happens, a second after each other; apply is the apply in which they do.
		edits func(r *rig, second func())
		// want is how many seconds after the start the cause begins.
		want int
	}{
		"an edit": {"The handler may receive the event later than the watch.", func(r *rig, second func()) {
			second()
			kept, err := r.TransformFor("", configMaps)(configMap("red", "101"))
			require.NoError(t, err)
			second()
			r.handler.OnUpdate(nil, kept)
		}, 1},
		"two edits": {"The first value stands until both are reverted.", func(r *rig, second func()) {
			second()
			r.event(t, configMap("red", "101"))
			second()
			r.event(t, configMap("green", "102"))
		}, 1},
		"a deletion": {"A deletion has no state that differs.", func(r *rig, second func()) {
			second()
			r.handler.OnDelete(&Snapshot{namespace: compact(key).namespace, name: key.Name, version: newVersion("101")})
		}, 1},
		"during an apply": {"The edit stands while the apply runs.", func(r *rig, second func()) {
			r.apply("blue", "102", func() {
				second()
				r.event(t, configMap("red", "101")) // the apply overwrites it
				second()
				r.event(t, configMap("green", "103"))
				second()
				r.event(t, configMap("red", "104"))
				second()
			})
		}, 2},
		"failed": {"A heal that fails is retried, and the value stands meanwhile.", func(r *rig, second func()) {
			second()
			r.event(t, configMap("red", "101"))
			causes := r.TakeCauses(owner)
			second()
			r.event(t, configMap("green", "102"))
			r.RequeueCauses(owner, causes)
		}, 1},
		"not from an event": {"A cause without a time does not hide that of an event.", func(r *rig, second func()) {
			r.RequeueCauses(owner, Causes{Objects: map[ObjectKey]Cause{key: {Unsure: true}}})
			second()
			r.event(t, configMap("red", "101"))
			r.RequeueCauses(owner, Causes{Objects: map[ObjectKey]Cause{key: {Unsure: true}}})
		}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.apply("blue", "100", nil)
				start := time.Now()
				tc.edits(r, func() { time.Sleep(time.Second) })
				cause, found := r.TakeCauses(owner).Objects[key]
				require.True(t, found, tc.reason)
				require.Equal(t, time.Duration(tc.want)*time.Second, cause.Since.Sub(start), tc.reason)
			})
		})
	}
}
