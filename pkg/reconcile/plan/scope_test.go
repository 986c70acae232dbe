package plan

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
		change func(in *ScopeInput)
		want   Scope
	}{
		"Edit":       {"Only the edited object is considered.", func(*ScopeInput) {}, Scope{Retry: true}},
		"Uncaused":   {"What asks for nothing asks for all.", func(in *ScopeInput) { in.Causes = trigger.Causes{} }, Scope{All: true, Retry: true}},
		"All":        {"A cause may be all objects.", func(in *ScopeInput) { in.Causes.All = true }, Scope{All: true, Retry: true}},
		"Health":     {"The health of an object is no reason to apply.", func(in *ScopeInput) { in.Causes = trigger.Causes{Health: true} }, Scope{Retry: true}},
		"Spec":       {"Another generation changes all.", func(in *ScopeInput) { in.Generations.Spec = 2 }, Scope{All: true, Changed: true, Resync: true, Retry: true}},
		"HeldBack":   {"What was held back under this generation is done.", func(in *ScopeInput) { in.Generations.Observed = 0 }, Scope{All: true, Retry: true}},
		"Resync":     {"Its time has come.", func(in *ScopeInput) { in.Schedule.Resync = now }, Scope{All: true, Resync: true, Retry: true}},
		"Source":     {"A source is read again at once.", func(in *ScopeInput) { in.SourcesChanged = true }, Scope{Changed: true, Sources: true, Retry: true}},
		"Unwatched":  {"A source without a watch is not read for an edit.", func(in *ScopeInput) { in.SourcesUnknown = true }, Scope{Retry: true}},
		"Reread":     {"A kind is gone.", func(in *ScopeInput) { in.Reread = true }, Scope{All: true, Retry: true}},
		"Finalizing": {"All objects are removed.", func(in *ScopeInput) { in.Finalizing = true }, Scope{All: true, Retry: true}},
		"Account":    {"The manifest was not read at all.", func(in *ScopeInput) { in.AccountMissing = true }, Scope{All: true, Retry: true}},
		"UnwatchedResync": {
			"A source without a watch is read with every resync.",
			func(in *ScopeInput) { in.SourcesUnknown, in.Schedule.Resync = true, past },
			Scope{All: true, Changed: true, Sources: true, Resync: true, Retry: true},
		},
		"RetryWaits": {
			"An edit does not retry what failed elsewhere.", func(in *ScopeInput) { in.Schedule.Retry.At, in.RetryAt = future, future }, Scope{},
		},
		"RetryDue": {
			"An edit does not keep what is due waiting.", func(in *ScopeInput) { in.Schedule.Retry.At, in.RetryAt = past, past }, Scope{All: true, Retry: true},
		},
		"RetryOfAnObject": {
			"A failing object has all considered at its time, and the manifest is read again at another one.",
			func(in *ScopeInput) { in.Schedule.Retry.At, in.RetryAt = future, past }, Scope{All: true},
		},
		"Flush": {
			"The status counts reverts without considering all objects.",
			func(in *ScopeInput) { in.Causes, in.Schedule.Flush = trigger.Causes{}, past }, Scope{Retry: true},
		},
		"FlushWaits": {
			"It is not time to count them.", func(in *ScopeInput) { in.Schedule.Flush = future }, Scope{Retry: true},
		},
		"EditBesideSuspects": {
			"A revert does not wait for comparisons.",
			func(in *ScopeInput) {
				in.ComparesObjects, in.HasSuspects, in.Schedule.Suspects = true, true, past
			},
			Scope{Retry: true},
		},
		"SuspectsOff": {
			"The backstop may be off.",
			func(in *ScopeInput) {
				in.Causes, in.HasSuspects, in.Schedule.Suspects = trigger.Causes{}, true, past
			},
			Scope{All: true, Retry: true},
		},
		"SuspectsWait": {
			"The events of suspects have some time to come.",
			func(in *ScopeInput) {
				in.Causes, in.ComparesObjects, in.HasSuspects, in.Schedule.Suspects = trigger.Causes{}, true, true, future
			},
			Scope{All: true, Retry: true},
		},
		"Suspects": {
			"What differed in a LIST is compared.",
			func(in *ScopeInput) {
				in.Causes, in.ComparesObjects, in.HasSuspects, in.Schedule.Suspects = trigger.Causes{}, true, true, past
			},
			Scope{All: true, Retry: true, Suspects: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := ScopeInput{Now: now, Generations: Generations{Spec: 1, Read: 1, Observed: 1}, Causes: edit, Schedule: Schedule{Resync: future}}
			in.Causes.Objects = edit.Objects
			tc.change(&in)
			require.Equal(t, tc.want, DecideScope(in), tc.reason)
		})
	}
}
