package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Heal is a revert of an object.
type Heal struct {
	ID     object.Identity
	Action events.Action
	// Fields are the reverted fields.
	Fields []ownership.Change
	// Structural is whether the edit added fields or list items, which the revert removed.
	Structural bool
	// Since is when the first event of the change was received; zero if no event reported it.
	Since time.Time
	// Answered is when the API server answered the last request of the revert.
	Answered time.Time
}

// editKind is the kind of a change that was reverted: the label kind of the durations.
type editKind string

const (
	// editValue is a change of values, or of who owns them, which one PATCH reverts.
	editValue editKind = "value"
	// editStructural is a change that added or removed fields or list items.
	editStructural editKind = "structural"
	// editDeletion is the deletion of the object, or the loss of the label that selects it for the watch, which looks like
	// one.
	editDeletion editKind = "deletion"
)

var editKinds = []editKind{editValue, editStructural, editDeletion}

// kind returns the kind of the change.
func (h Heal) kind() editKind {
	switch {
	case h.Action == events.Recreated || h.Action == events.Relabelled:
		return editDeletion
	case h.Structural, slices.ContainsFunc(h.Fields, func(c ownership.Change) bool {
		return c.Kind == ownership.Removed || c.Kind == ownership.Added
	}):
		return editStructural
	}
	return editValue
}

// newDurations makes the histogram. A heal takes a few milliseconds; one that is delayed or refused
// takes up to minutes.
func newDurations() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "vidra_heal_duration_seconds",
		Help: "Duration of reverts, from when the operator received the event of the change until the API server answered the last request of the revert; " +
			"with the time in which a contended object waited, or the API server refused the revert. " +
			"kind is that of the change: value, structural (fields or list items were added or removed) or deletion (of the object, or of the label by which it is watched).",
		Buckets: []float64{0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600},
	}, []string{"kind"})
}

// Healed counts a revert.
func (m *Metrics) Healed(h Heal) {
	m.heals.WithLabelValues(h.ID.Group, h.ID.Kind, string(h.Action)).Inc()
	if h.Since.IsZero() || h.Answered.Before(h.Since) {
		return // no event reported the change, so it is not known how long it stood
	}
	took := h.Answered.Sub(h.Since).Seconds()
	m.durations.WithLabelValues(string(h.kind())).Observe(took)
	m.exposure.add(h, took)
}
