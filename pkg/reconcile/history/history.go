package history

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// MaxBytes is how many bytes the entries of a VidraResource take at most, as JSON.
const MaxBytes = 32 << 10

// Pending are the entries that are still to be written to a status, the newest first. Its zero value is empty. It is
// not safe for concurrent use.
type Pending struct {
	entries []v1alpha1.HistoryEntry
	// dropped is how many edits were in entries that were dropped.
	dropped int64
}

// Add adds a change that a VidraResource made, if it is about an edit, and reports whether it is.
func (p *Pending) Add(owner string, change events.Change, now time.Time) bool {
	e, ok := entryOf(owner, change, now)
	if !ok {
		return false
	}
	*p = p.And(Pending{entries: []v1alpha1.HistoryEntry{e}}) // fewer may fit into a status, which AddTo finds out
	return true
}

// Any reports whether there are entries.
func (p *Pending) Any() bool { return len(p.entries) > 0 }

// DropFoundAgain removes the entries that the next reconcile adds again, because no status reports the
// change.
func (p *Pending) DropFoundAgain() {
	p.entries = slices.DeleteFunc(p.entries, func(e v1alpha1.HistoryEntry) bool {
		return e.Reason != events.ReasonDriftCorrected && e.Reason != events.ReasonReplaced
	})
}

// And returns the entries with later ones.
func (p Pending) And(later Pending) Pending {
	all := Pending{entries: slices.Clone(p.entries), dropped: p.dropped + later.dropped}
	for _, e := range slices.Backward(later.entries) {
		all.entries = insert(all.entries, e)
	}
	for len(all.entries) > v1alpha1.MaxHistory {
		all.entries = dropOne(all.entries, &all.dropped)
	}
	return all
}

// AddTo adds the entries to a status. It leaves the data that the status shares with others as it is.
func (p *Pending) AddTo(status *v1alpha1.VidraResourceStatus) {
	all := slices.Clone(status.History)
	for _, e := range slices.Backward(p.entries) {
		all = insert(all, e)
	}
	status.UnlistedHistory += p.dropped
	for len(all) > v1alpha1.MaxHistory || len(all) > 0 && Size(all) > MaxBytes {
		all = dropOne(all, &status.UnlistedHistory)
	}
	status.History = all
}

// entryOf returns the entry of a change, and whether it is about an edit.
func entryOf(owner string, change events.Change, now time.Time) (v1alpha1.HistoryEntry, bool) {
	told := events.OfEdit(corev1.ObjectReference{Kind: v1alpha1.Kind, Name: owner}, change)
	if len(told) == 0 {
		return v1alpha1.HistoryEntry{}, false
	}
	o, at := change.Object, metav1.NewTime(now.Truncate(time.Second))
	e := v1alpha1.HistoryEntry{
		Object: v1alpha1.ProblemObject{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name},
		Reason: told[0].Reason, FirstTime: at, LastTime: at, Count: 1,
		Message: events.HistoryMessage(told[0].Note, o),
	}
	for _, field := range change.Fields {
		if len(e.Fields) < v1alpha1.MaxHistoryFields {
			e.Fields = append(e.Fields, display.Truncate(field.Path, v1alpha1.MaxHistoryMessage))
		}
		e.Values = append(e.Values, valueOf(field))
		if e.Manager == "" && e.User == "" {
			e.Manager = display.Truncate(display.Line(field.Manager), v1alpha1.MaxHistoryWriter)
			e.User = display.Truncate(display.Line(field.User), v1alpha1.MaxHistoryWriter)
		}
	}
	if text := strings.Join(e.Values, ""); text == "" || len(text) > ownership.MaxWhole || len(e.Values) > v1alpha1.MaxHistoryFields {
		e.Values = nil
	}
	return e, true
}

// valueOf returns the value that an edit had given to a field.
func valueOf(c ownership.Change) string {
	if c.Kind == ownership.Removed && !c.Withheld {
		return "null"
	}
	return c.Value
}

// insert returns the entries with one more, the newest. If it has happened before, that is its count.
func insert(all []v1alpha1.HistoryEntry, e v1alpha1.HistoryEntry) []v1alpha1.HistoryEntry {
	if i := slices.IndexFunc(all, func(other v1alpha1.HistoryEntry) bool { return same(other, e) }); i >= 0 {
		e.FirstTime, e.Count = all[i].FirstTime, e.Count+all[i].Count
		all = slices.Delete(all, i, i+1)
	}
	return slices.Insert(all, 0, e)
}

// same reports whether two entries are about the same edit of the same object.
func same(a, b v1alpha1.HistoryEntry) bool {
	return a.Object == b.Object && a.Reason == b.Reason && a.Message == b.Message && a.Manager == b.Manager && a.User == b.User &&
		slices.Equal(a.Fields, b.Fields)
}

// dropOne returns the entries without the oldest one of the object that has most, so that the others
// keep theirs. It adds the edits of that entry to dropped.
func dropOne(all []v1alpha1.HistoryEntry, dropped *int64) []v1alpha1.HistoryEntry {
	counts, most := map[v1alpha1.ProblemObject]int{}, 0
	for _, e := range all {
		counts[e.Object]++
		most = max(most, counts[e.Object])
	}
	for i, e := range slices.Backward(all) {
		if counts[e.Object] == most {
			*dropped += e.Count
			return slices.Delete(all, i, i+1)
		}
	}
	return all
}

// Size is how many bytes a part of a VidraResource takes as JSON.
func Size(part any) int {
	text, _ := json.Marshal(part) // it came from JSON
	return len(text)
}
