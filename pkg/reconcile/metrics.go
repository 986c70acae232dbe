package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/vidra-operator/vidra/pkg/events"
)

// Metrics count what a Reconciler does. It implements prometheus.Collector.
type Metrics struct{ *prometheus.CounterVec }

// NewMetrics makes Metrics of nothing done yet.
func NewMetrics() *Metrics {
	return &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vidra_heals_total",
		Help: "Objects that were put back: Restored (somebody had changed it), Recreated (somebody had deleted it) or Relabelled (it had lost the label by which it is watched).",
	}, []string{"group", "kind", "action"})}
}

func (m *Metrics) healed(id identity, action events.Action) {
	if m != nil {
		m.WithLabelValues(id.Group, id.Kind, string(action)).Inc()
	}
}
