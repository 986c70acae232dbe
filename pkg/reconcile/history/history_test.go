package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

var began = time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)

// revert is a revert of a value that a user had set.
func revert(name, value string) events.Change {
	return events.Change{
		Action: events.Restored,
		Object: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name, UID: "u"},
		Fields: []ownership.Change{{
			Path: "data.greeting", Kind: ownership.Changed, Found: value, Restored: `"hello"`, Manager: "kubectl-edit", User: "alice",
		}},
		Place: "spec.manifest of VidraResource shop, document 2, line 14",
	}
}

// entries are what a status has after some changes, one a second.
func entries(changes ...events.Change) v1alpha1.VidraResourceStatus {
	var p Pending
	for i, change := range changes {
		p.Add("shop", change, began.Add(time.Duration(i)*time.Second))
	}
	status := v1alpha1.VidraResourceStatus{}
	p.AddTo(&status)
	return status
}

func TestEntry(t *testing.T) {
	got := entries(revert("page", `"bye"`), revert("page", `"bye"`), revert("page", `"ciao"`)).History
	require.Len(t, got, 2, "another value is another edit")
	require.Equal(t, `reverted data.greeting to "hello"; alice (kubectl-edit) had set it to "ciao"`, got[0].Message)
	twice := got[1]
	require.Equal(t, v1alpha1.ProblemObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page"}, twice.Object)
	require.Equal(t, events.ReasonDriftCorrected, twice.Reason)
	require.Equal(t, []string{"data.greeting"}, twice.Fields)
	require.Equal(t, "kubectl-edit", twice.Manager)
	require.Equal(t, "alice", twice.User)
	require.EqualValues(t, 2, twice.Count)
	require.Equal(t, time.Second, twice.LastTime.Sub(twice.FirstTime.Time))
}

// TestWhatIsAnEdit: each result of an edit is in the history, and what Vidra does by itself is not.
func TestWhatIsAnEdit(t *testing.T) {
	object := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page"}
	answer := &v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassIgnored, Message: "no"}
	for action, reason := range map[events.Action]string{
		events.Restored: events.ReasonDriftCorrected, events.Recreated: events.ReasonDriftCorrected, events.Relabelled: events.ReasonDriftCorrected,
		events.Replaced: events.ReasonReplaced, events.Detected: v1alpha1.ReasonDriftDetected, events.Contended: v1alpha1.ReasonDriftContended,
		events.Settled: events.ReasonDriftSettled, events.Answered: events.ReasonBreakGlassIgnored,
		events.Created: "", events.Configured: "", events.Pruned: "", events.Released: "", events.Orphaned: "",
	} {
		got := entries(events.Change{Action: action, Object: object, Note: "note", BreakGlass: answer}).History
		if reason == "" {
			require.Empty(t, got, action)
			continue
		}
		require.Len(t, got, 1, action)
		require.Equal(t, reason, got[0].Reason)
	}
}

// TestWrittenTwice: what a status has already is counted on.
func TestWrittenTwice(t *testing.T) {
	status := entries(revert("page", `"bye"`), revert("other", `"bye"`))
	before := status.DeepCopy()
	var p Pending
	p.Add("shop", revert("page", `"bye"`), began.Add(time.Hour))
	after := status
	p.AddTo(&after)
	require.Equal(t, *before, status, "the status before is not changed")
	require.Len(t, after.History, 2)
	require.Equal(t, "page", after.History[0].Object.Name, "it is the newest one now")
	require.EqualValues(t, 2, after.History[0].Count)
	require.Equal(t, time.Hour, after.History[0].LastTime.Sub(after.History[0].FirstTime.Time))
}

// TestHistoryIsBounded: one object cannot displace the edits of others, and what is dropped is counted.
func TestHistoryIsBounded(t *testing.T) {
	const many = 500
	changes := []events.Change{revert("quiet", `"bye"`)}
	for i := range many {
		changes = append(changes, revert("noisy", fmt.Sprint(i)))
	}
	status := entries(changes...)
	require.Len(t, status.History, v1alpha1.MaxHistory)
	require.EqualValues(t, len(changes)-v1alpha1.MaxHistory, status.UnlistedHistory)
	require.Equal(t, "quiet", status.History[v1alpha1.MaxHistory-1].Object.Name)
	require.Contains(t, status.History[0].Message, fmt.Sprint(many-1))

	changes = nil
	for i := range many {
		change := revert(strings.Repeat("n", 240)+fmt.Sprint(i), fmt.Sprintf("%q", strings.Repeat("v", 80)))
		change.Object.Kind, change.Fields[0].User, change.Fields[0].Manager = strings.Repeat("K", 63), strings.Repeat("u", 500), strings.Repeat("m", 500)
		for range 20 {
			field := change.Fields[0]
			field.Path = strings.Repeat("p", 500)
			change.Fields = append(change.Fields, field)
		}
		changes = append(changes, change)
	}
	status = entries(changes...)
	text, err := json.Marshal(status.History)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), MaxBytes)
	require.EqualValues(t, many-len(status.History), status.UnlistedHistory)
	for _, e := range status.History {
		require.LessOrEqual(t, len(e.Message), v1alpha1.MaxHistoryMessage)
		require.LessOrEqual(t, len(e.Fields), v1alpha1.MaxHistoryFields)
		require.LessOrEqual(t, len(e.Manager)+len(e.User), 2*v1alpha1.MaxHistoryWriter)
	}
}

// TestFoundAgain: what the next process finds again is not counted twice.
func TestFoundAgain(t *testing.T) {
	var p Pending
	p.Add("shop", revert("page", `"bye"`), began)
	detected := revert("page", `"bye"`)
	detected.Action = events.Detected
	p.Add("shop", detected, began)
	p.DropFoundAgain()
	status := v1alpha1.VidraResourceStatus{}
	p.AddTo(&status)
	require.Len(t, status.History, 1)
	require.Equal(t, events.ReasonDriftCorrected, status.History[0].Reason)
}

// TestValues: the values of an edit are recorded as a whole, or not at all.
func TestValues(t *testing.T) {
	changed := func(value string) ownership.Change {
		return ownership.Change{Path: "data.a", Kind: ownership.Changed, Found: "x", Value: value}
	}
	many := slices.Repeat([]ownership.Change{changed("1")}, v1alpha1.MaxHistoryFields+1)
	tests := map[string]struct {
		reason string
		fields []ownership.Change
		want   []string
	}{
		"value":    {"as JSON", []ownership.Change{changed(`"red"`)}, []string{`"red"`}},
		"removed":  {"null stands for it", []ownership.Change{{Path: "data.a", Kind: ownership.Removed}, changed("2")}, []string{"null", "2"}},
		"unknown":  {"one of them is withheld or long", []ownership.Change{changed("2"), changed("")}, []string{"2", ""}},
		"withheld": {"nothing is recorded", []ownership.Change{{Path: "data.a", Kind: ownership.Removed, Withheld: true}}, nil},
		"long":     {"the history has no room", []ownership.Change{changed(strings.Repeat("1", 300)), changed(strings.Repeat("1", 300))}, nil},
		"many":     {"some fields are not named", many, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			change := events.Change{Action: events.Restored, Object: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}, Fields: tt.fields}
			e, ok := entryOf("shop", change, time.Now())
			require.True(t, ok)
			require.Equal(t, tt.want, e.Values, tt.reason)
		})
	}
}
