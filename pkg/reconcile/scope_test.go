package reconcile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

func TestDecideScope(t *testing.T) {
	t.Parallel()
	now := time.Now()
	past, future := now.Add(-time.Second), now.Add(time.Hour)
	edit := trigger.Causes{Objects: map[trigger.ObjectKey]trigger.Cause{{Name: "a"}: {}}}
	cases := map[string]struct {
		reason string
		// change makes the input from that of a VidraResource in order of which one object was edited.
		change func(in *scopeInput)
		want   scope
	}{
		"Edit":       {"Only the edited object is considered.", func(*scopeInput) {}, scope{retry: true}},
		"Uncaused":   {"What asks for nothing asks for all.", func(in *scopeInput) { in.causes = trigger.Causes{} }, scope{all: true, retry: true}},
		"All":        {"A cause may be all objects.", func(in *scopeInput) { in.causes.All = true }, scope{all: true, retry: true}},
		"Gone":       {"What waited for the end of an object goes on.", func(in *scopeInput) { in.causes.Gone = true }, scope{all: true, retry: true}},
		"Health":     {"The health of an object is no reason to apply.", func(in *scopeInput) { in.causes = trigger.Causes{Health: true} }, scope{retry: true}},
		"Spec":       {"Another generation changes all.", func(in *scopeInput) { in.generation = 2 }, scope{all: true, changed: true, resync: true, retry: true}},
		"HeldBack":   {"What was held back under this generation is done.", func(in *scopeInput) { in.observed = 0 }, scope{all: true, retry: true}},
		"Resync":     {"Its time has come.", func(in *scopeInput) { in.schedule.resync = now }, scope{all: true, resync: true, retry: true}},
		"Source":     {"A source is read again at once.", func(in *scopeInput) { in.sourcesChanged = true }, scope{changed: true, sources: true, retry: true}},
		"Unwatched":  {"A source without a watch is not read for an edit.", func(in *scopeInput) { in.sourcesUnknown = true }, scope{retry: true}},
		"Reread":     {"A kind is gone.", func(in *scopeInput) { in.reread = true }, scope{all: true, retry: true}},
		"Finalizing": {"All objects are removed.", func(in *scopeInput) { in.finalizing = true }, scope{all: true, retry: true}},
		"Account":    {"The manifest was not read at all.", func(in *scopeInput) { in.accountMissing = true }, scope{all: true, retry: true}},
		"UnwatchedResync": {
			"A source without a watch is read with every resync.",
			func(in *scopeInput) { in.sourcesUnknown, in.schedule.resync = true, past },
			scope{all: true, changed: true, sources: true, resync: true, retry: true},
		},
		"RetryWaits": {
			"An edit does not retry what failed elsewhere.", func(in *scopeInput) { in.schedule.retry = future }, scope{},
		},
		"RetryDue": {
			"An edit does not keep what is due waiting.", func(in *scopeInput) { in.schedule.retry = past }, scope{all: true, retry: true},
		},
		"Flush": {
			"The status counts reverts without considering all objects.",
			func(in *scopeInput) { in.causes, in.schedule.flush = trigger.Causes{}, past }, scope{retry: true, flush: true},
		},
		"FlushWaits": {
			"It is not time to count them.", func(in *scopeInput) { in.schedule.flush = future }, scope{retry: true},
		},
		"EditAtBackstop": {
			"A revert does not wait for comparisons.",
			func(in *scopeInput) {
				in.comparesObjects, in.hasSuspects, in.schedule.backstop, in.schedule.suspects = true, true, past, past
			},
			scope{retry: true},
		},
		"Backstop": {
			"All objects are compared.",
			func(in *scopeInput) {
				in.causes, in.comparesObjects, in.schedule.backstop = trigger.Causes{}, true, past
			},
			scope{all: true, retry: true, backstop: true},
		},
		"BackstopOff": {
			"It may be off.", func(in *scopeInput) { in.causes, in.schedule.backstop = trigger.Causes{}, past }, scope{all: true, retry: true},
		},
		"Suspects": {
			"What differed is compared again.",
			func(in *scopeInput) {
				in.causes, in.comparesObjects, in.hasSuspects = trigger.Causes{}, true, true
				in.schedule.backstop, in.schedule.suspects = future, past
			},
			scope{all: true, retry: true, suspects: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := scopeInput{now: now, generation: 1, read: 1, observed: 1, causes: edit, schedule: schedule{resync: future}}
			in.causes.Objects = edit.Objects
			tc.change(&in)
			require.Equal(t, tc.want, decideScope(in), tc.reason)
		})
	}
}
