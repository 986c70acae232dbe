package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Metrics count the work of a Reconciler. It implements prometheus.Collector.
type Metrics struct {
	prometheus.Collector
	heals, HeldHeals, corrections, failures *prometheus.CounterVec

	durations *prometheus.HistogramVec
	exposure  exposure
}

// New makes Metrics that are all zero.
func New() *Metrics {
	m := &Metrics{
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
			Help: "Differences that only the LISTs of the backstop found, once every --backstop-interval. Anything but 0 is a bug of Vidra: please report it.",
		}, []string{"group", "kind"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vidra_backstop_failures_total",
			Help: "LISTs of the backstop that failed, with the resource as kind, and comparisons of single objects that failed.",
		}, []string{"group", "kind"}),
		durations: newDurations(),
		exposure:  newExposure(),
	}
	for _, kind := range editKinds {
		m.durations.WithLabelValues(string(kind)) // rate also sees the first heal then
	}
	all := prometheus.NewRegistry()
	all.MustRegister(m.heals, m.HeldHeals, m.corrections, m.failures, m.durations, m.exposure.seconds)
	m.Collector = all
	return m
}

// Held counts a heal that is delayed.
func (m *Metrics) Held(id object.Identity) { m.HeldHeals.WithLabelValues(id.Group, id.Kind).Inc() }

// BackstopCorrected counts a difference that only the backstop found.
func (m *Metrics) BackstopCorrected(id object.Identity) {
	m.corrections.WithLabelValues(id.Group, id.Kind).Inc()
}

// BackstopFailed counts a comparison that failed: of an object of a kind, or the LIST of a resource.
func (m *Metrics) BackstopFailed(group, kind string) { m.failures.WithLabelValues(group, kind).Inc() }
