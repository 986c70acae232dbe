package trigger

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metrics counts the decisions of a Factory.
type metrics struct {
	verdicts  *prometheus.CounterVec
	overflows prometheus.Counter
	notKept   prometheus.Counter
}

func newMetrics() metrics {
	return metrics{
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vidra_trigger_verdicts_total",
			Help: "Verdicts on the events of managed objects: Unchanged, Foreign (a field that no owner owns), Echo (of an apply), Stale, InFlight (judged again after the apply), Terminating, Drift, Deleted (or it lost its label), Gone or Unknown (no owner).",
		}, []string{"destination", "group", "version", "resource", "verdict"}),
		overflows: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vidra_trigger_causes_overflowed_total",
			Help: "How often an owner had more pending causes than are stored, so that it reconciled all its objects instead.",
		}),
		notKept: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vidra_trigger_objects_not_kept_total",
			Help: "Changed objects that were too large, or too many, to be stored in memory until they are healed. The heal reads them from the API server.",
		}),
	}
}

// Describe implements prometheus.Collector.
func (f *Factory) Describe(descs chan<- *prometheus.Desc) {
	f.metrics.verdicts.Describe(descs)
	f.metrics.overflows.Describe(descs)
	f.metrics.notKept.Describe(descs)
}

// Collect implements prometheus.Collector.
func (f *Factory) Collect(series chan<- prometheus.Metric) {
	f.metrics.verdicts.Collect(series)
	f.metrics.overflows.Collect(series)
	f.metrics.notKept.Collect(series)
}

// verdictCounters counts the verdicts on the events of one watch.
type verdictCounters map[Verdict]prometheus.Counter

func (m metrics) countersOf(cluster string, gvr schema.GroupVersionResource) verdictCounters {
	t := verdictCounters{}
	for _, verdict := range []Verdict{
		VerdictUnchanged, VerdictForeign, VerdictEcho, VerdictStale, VerdictInFlight,
		VerdictTerminating, VerdictDrift, VerdictDeleted, VerdictGone, VerdictUnknown,
	} {
		t[verdict] = m.verdicts.WithLabelValues(cluster, gvr.Group, gvr.Version, gvr.Resource, string(verdict))
	}
	return t
}

// ForgetCluster removes the series of a cluster that was a destination.
func (f *Factory) ForgetCluster(cluster string) {
	f.metrics.verdicts.DeletePartialMatch(prometheus.Labels{"destination": cluster})
}

// count counts a verdict.
func (t verdictCounters) count(verdict Verdict, o observation) {
	if verdict == VerdictAsExpected {
		verdict = VerdictUnchanged
		if o.changed {
			verdict = VerdictForeign
		}
	}
	t[verdict].Inc()
}
