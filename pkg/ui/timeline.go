package ui

import (
	"fmt"
	"slices"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// moment is an edit in a timeline, and its outcome.
type moment struct {
	Time   time.Time
	Object object.Identity
	// VidraResource has the object.
	VidraResource string
	// Outcome is the outcome of the edit; Tone is the key of a state, for its colour and shape.
	Outcome, Tone string
	// User and Manager made the edit; empty where they are unknown.
	User, Manager string
	// Fields are the edited fields; none for a deletion.
	Fields []fieldChange
	// Message is the message of the history or of a condition.
	Message string
	// Because is the reason of the revert, with the place in the manifest; empty if it is unknown.
	Because string
	// Exposure is how long the edit stood, where a watch has shown it.
	Exposure time.Duration
	// Count is how often the same edit was made since First.
	Count int64
	First time.Time
	// Diff is a unified diff from the edit to the revert, where a watch has shown both.
	Diff string
	// Gone reports a deletion, and IsEdit that it is about an edit, rather than about an exemption.
	Gone, IsEdit bool
}

// fieldChange is a field of an edit.
type fieldChange struct {
	Path string
	// Old is the value of the manifest, and New the value of the edit.
	Old, New string
	// Known reports that the values are known, and Withheld that they are never shown.
	Known, Withheld bool
}

// outcomes are the outcomes of the reasons of a history, with their tones.
var outcomes = map[string][2]string{
	events.ReasonDriftCorrected:     {"Reverted by Vidra", toneReverted},
	events.ReasonChangeReverted:     {"Reverted by Vidra", toneReverted},
	v1alpha1.ReasonDriftDetected:    {"Not reverted", "drifted"},
	v1alpha1.ReasonDriftContended:   {"Contended: made again after each revert", "drifted"},
	events.ReasonDriftSettled:       {"Contention is over", "ok"},
	events.ReasonReplaced:           {"Replaced by Vidra", "progress"},
	events.ReasonBreakGlassAccepted: {"Exemption began: edits stay", "suspended"},
	events.ReasonBreakGlassIgnored:  {"Exemption refused", "drifted"},
	events.ReasonBreakGlassEnded:    {"Exemption ended", "ok"},
}

// toneReverted is the tone of an edit that was reverted.
const toneReverted = "reverted"

// slack is the most difference between the times of an entry of the history and of the edit: the entry has the begin of a
// reconcile, in seconds.
const slack = 3 * time.Second

// timelineOf merges the history of a VidraResource with the edits that were observed. A nil filter has all objects.
func timelineOf(name string, history []v1alpha1.HistoryEntry, observed []edit, only *object.Identity) []moment {
	var all []moment
	used := make([]bool, len(observed))
	for _, h := range history {
		id := insight.IdentityOf(h.Object)
		if only != nil && id != *only {
			continue
		}
		m := moment{
			Time: h.LastTime.Time, Object: id, VidraResource: name, User: h.User, Manager: h.Manager, Message: h.Message,
			Count: h.Count, First: h.FirstTime.Time, Outcome: h.Reason, Tone: "progress", Gone: len(h.Fields) == 0 && isEdit(h.Reason), IsEdit: isEdit(h.Reason) || h.Reason == v1alpha1.ReasonDriftContended,
		}
		if outcome, known := outcomes[h.Reason]; known {
			m.Outcome, m.Tone = outcome[0], outcome[1]
		}
		for _, path := range h.Fields {
			m.Fields = append(m.Fields, fieldChange{Path: path})
		}
		for i, e := range slices.Backward(observed) { // the newest one counts
			if isEdit(h.Reason) && e.Object == id && sameFields(h.Fields, e) && !e.Seen.Before(h.FirstTime.Add(-slack)) && !e.Seen.After(h.LastTime.Add(slack)) {
				used[i] = true
				m.observed(e)
			}
		}
		all = append(all, m)
	}
	for i, e := range observed {
		if used[i] {
			continue
		}
		m := moment{Object: e.Object, VidraResource: e.VidraResource, Count: 1, Outcome: "Not reverted yet", Tone: "progress", IsEdit: true}
		m.observed(e)
		if !e.Reverted.IsZero() {
			m.Outcome, m.Tone = "Reverted by Vidra", toneReverted
		}
		all = append(all, m)
	}
	return newestFirst(all)
}

// isEdit reports whether a reason is about an edit, rather than about an exemption or a contention.
func isEdit(reason string) bool {
	return slices.Contains([]string{events.ReasonDriftCorrected, events.ReasonChangeReverted, v1alpha1.ReasonDriftDetected}, reason)
}

// sameFields reports whether an entry of the history with fields can be about an observed edit.
func sameFields(fields []string, e edit) bool {
	if len(fields) == 0 {
		return e.Gone
	}
	return slices.ContainsFunc(e.Changes, func(c ownership.Change) bool { return slices.Contains(fields, c.Path) })
}

// observed adds the values and the exposure of an observed edit.
func (m *moment) observed(e edit) {
	m.Exposure, m.Diff, m.Gone = e.Exposure(), e.Diff, e.Gone
	var fields []fieldChange
	for _, c := range e.Changes {
		fields = append(fields, fieldChange{Path: c.Path, Old: c.Restored, New: c.Found, Known: true, Withheld: c.Withheld})
		if m.Manager == "" {
			m.Manager = c.Manager
		}
	}
	for _, f := range m.Fields { // such as an addition, which the observed fields do not have
		if !slices.ContainsFunc(fields, func(c fieldChange) bool { return c.Path == f.Path }) {
			fields = append(fields, f)
		}
	}
	m.Fields = fields
	m.Time = e.Seen
}

// By is who made the edit.
func (m moment) By() string {
	switch {
	case m.User != "" && m.Manager != "":
		return fmt.Sprintf("edited by %s with %s", m.User, m.Manager)
	case m.User != "":
		return "edited by " + m.User
	case m.Manager != "":
		return "edited with " + m.Manager + ", person unknown"
	case m.Gone:
		return "deleted; Kubernetes does not record by whom"
	}
	return "edited; Kubernetes has not recorded with which tool"
}

// ValuesKnown reports whether the values of a field are known.
func (m moment) ValuesKnown() bool {
	return slices.ContainsFunc(m.Fields, func(f fieldChange) bool { return f.Known })
}

// ShowsMessage reports whether the message adds to the fields: it has values that are unknown otherwise, or the reason for
// which an edit stands.
func (m moment) ShowsMessage() bool {
	return m.Message != "" && (!m.IsReverted() || !m.ValuesKnown())
}

// NamesProgram reports whether the row names a program, and no user.
func (m moment) NamesProgram() bool { return m.IsEdit && m.User == "" && m.Manager != "" }

// IsReverted reports whether the edit was undone.
func (m moment) IsReverted() bool { return m.Tone == toneReverted }

// ShownExposure is the exposure as text.
func (m moment) ShownExposure() string {
	switch e := m.Exposure; {
	case e <= 0:
		return ""
	case e < 10*time.Second:
		return fmt.Sprintf("%d ms", max(1, e.Milliseconds()))
	default:
		return e.Round(time.Second).String()
	}
}

// timeline is a list of moments as a page shows it: Older ones on request.
type timeline struct {
	Newest, Older []moment
	// OneObject reports that all are about one object.
	OneObject bool
}

// NamesProgram reports whether a row names a program, and no user.
func (t timeline) NamesProgram() bool {
	return slices.ContainsFunc(t.Newest, moment.NamesProgram) || slices.ContainsFunc(t.Older, moment.NamesProgram)
}

// timelineOfMoments shows the first moments.
func timelineOfMoments(all []moment, shown int) timeline {
	n := min(len(all), shown)
	return timeline{Newest: all[:n], Older: all[n:]}
}
