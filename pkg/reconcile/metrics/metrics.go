package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Metrics count what a Reconciler does. It implements prometheus.Collector.
type Metrics struct {
	heals, HeldHeals, corrections, failures *prometheus.CounterVec
}

// New makes Metrics of nothing done yet.
func New() *Metrics {
	return &Metrics{
		heals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vidra_heals_total",
			Help: "Reverts of objects: Restored (it was changed), Recreated (it was deleted) or Relabelled (it had lost the label by which it is watched).",
		}, []string{"group", "kind", "action"}),
		HeldHeals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vidra_heals_held_total",
			Help: "Heals of contended objects that were delayed, each by less than spec.drift.maxExposure.",
		}, []string{"group", "kind"}),
		corrections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vidra_backstop_corrections_total",
			Help: "Differences that only the comparison with the API server found, once every --backstop-interval. Anything but 0 is a bug of Vidra: please report it.",
		}, []string{"group", "kind"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vidra_backstop_failures_total",
			Help: "Comparisons with the API server that failed.",
		}, []string{"group", "kind"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.heals.Describe(to)
	m.HeldHeals.Describe(to)
	m.corrections.Describe(to)
	m.failures.Describe(to)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.heals.Collect(to)
	m.HeldHeals.Collect(to)
	m.corrections.Collect(to)
	m.failures.Collect(to)
}

// Healed counts a revert.
func (m *Metrics) Healed(id object.Identity, action events.Action) {
	if m != nil {
		m.heals.WithLabelValues(id.Group, id.Kind, string(action)).Inc()
	}
}

// Held counts a heal that is delayed.
func (m *Metrics) Held(id object.Identity) {
	if m != nil {
		m.HeldHeals.WithLabelValues(id.Group, id.Kind).Inc()
	}
}

// BackstopCorrected counts a difference that only the backstop found.
func (m *Metrics) BackstopCorrected(id object.Identity) {
	if m != nil {
		m.corrections.WithLabelValues(id.Group, id.Kind).Inc()
	}
}

// BackstopFailed counts a comparison that failed.
func (m *Metrics) BackstopFailed(id object.Identity) {
	if m != nil {
		m.failures.WithLabelValues(id.Group, id.Kind).Inc()
	}
}
