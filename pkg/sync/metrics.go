package sync

import (
	gosync "sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// maxNamedSyncs is the maximum number of InfrahubSyncs that have series with their names.
const maxNamedSyncs = 1000

// outcomeOK is the outcome of a request that succeeded.
const outcomeOK = "ok"

// Metrics count the requests and results of syncs. It implements prometheus.Collector.
type Metrics struct {
	prometheus.Collector
	requests, webhooks        *prometheus.CounterVec
	writes                    *prometheus.CounterVec
	ready, lastSuccess, waits *prometheus.GaugeVec
	durations                 prometheus.Histogram

	// mu guards named.
	mu    gosync.Mutex
	named map[string]bool
}

// NewMetrics returns empty Metrics.
func NewMetrics() *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vidra_infrahub_requests_total",
			Help: "Requests to Infrahub servers by kind (login, query, artifact) and outcome: ok, or the reason of the failure.",
		}, []string{"request", "outcome"}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vidra_infrahub_webhooks_total",
			Help: "Webhooks of Infrahub by outcome: accepted, ignored (another event), replayed, refused (signature or time), invalid, limited (too many or too large), failed (no sync could be requested).",
		}, []string{"outcome"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vidra_infrahub_vidraresources_total",
			Help: "VidraResources that syncs created, changed or deleted.",
		}, []string{"action"}),
		ready: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "vidra_infrahubsync_ready",
			Help: "1 if the condition Ready of an InfrahubSync is True, else 0; none while it is suspended. At most 1000 InfrahubSyncs have it.",
		}, []string{"name"}),
		lastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "vidra_infrahubsync_last_success_timestamp_seconds",
			Help: "The time of the last complete answer of the Infrahub server, since this operator leads.",
		}, []string{"name"}),
		waits: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "vidra_infrahubsync_pending_removals",
			Help: "VidraResources of an InfrahubSync whose deletion waits for a confirmation.",
		}, []string{"name"}),
		durations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vidra_infrahubsync_seconds",
			Help: "The duration of a sync.", Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}),
		named: map[string]bool{},
	}
	for _, outcome := range []string{webhookAccepted, webhookRefused} { // increase() also sees the first one then
		m.webhooks.WithLabelValues(outcome)
	}
	all := prometheus.NewRegistry()
	all.MustRegister(m.requests, m.webhooks, m.writes, m.ready, m.lastSuccess, m.waits, m.durations)
	m.Collector = all
	return m
}

// sent counts a request.
func (m *Metrics) sent(request, reason string) {
	if reason == "" {
		reason = outcomeOK
	}
	m.requests.WithLabelValues(request, reason).Inc()
}

// synced records the result of a sync.
func (m *Metrics) synced(name string, status *v1alpha1.InfrahubSyncStatus, answered bool, took time.Duration) {
	m.durations.Observe(took.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.named[name] && len(m.named) >= maxNamedSyncs {
		return
	}
	m.named[name] = true
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason == v1alpha1.SyncReasonSuspended {
		m.ready.DeleteLabelValues(name)
	} else {
		value := 0.
		if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
			value = 1
		}
		m.ready.WithLabelValues(name).Set(value)
	}
	waiting := 0.
	if status.PendingRemovals != nil {
		waiting = float64(status.PendingRemovals.Count)
	}
	m.waits.WithLabelValues(name).Set(waiting)
	if answered {
		m.lastSuccess.WithLabelValues(name).SetToCurrentTime()
	}
}

// wrote counts the VidraResources that a sync wrote.
func (m *Metrics) wrote(r result) {
	for action, n := range map[string]int{"created": len(r.written.created), "changed": len(r.written.updated), "deleted": len(r.written.deleted)} {
		if n > 0 {
			m.writes.WithLabelValues(action).Add(float64(n))
		}
	}
}

// forget ends the series of an InfrahubSync.
func (m *Metrics) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.named, name)
	for _, gauge := range []*prometheus.GaugeVec{m.ready, m.lastSuccess, m.waits} {
		gauge.DeleteLabelValues(name)
	}
}
