package watchregistry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector reads the metrics of a Registry when they are scraped, so that the series of a
// watch end with the watch.
type collector struct {
	registry *Registry

	state, owners, objects, bytes, events, restarts, sync, age *prometheus.Desc
	audits, inconsistencies, handOvers                         *prometheus.Desc
}

// Collector returns the metrics of the registry for Prometheus. namespace is
// the first part of their names. No label names an object.
func (r *Registry) Collector(namespace string) prometheus.Collector {
	watch := []string{"destination", "group", "version", "resource", "watched_namespace"}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "watch", name), help, append(watch[:5:5], labels...), nil)
	}
	total := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "watch", name), help, nil, nil)
	}
	return &collector{
		registry: r,
		state:    desc("state", "1 for the state of the watch, with its reason.", "state", "reason"),
		owners:   desc("owners", "Owners that need the watch."),
		objects:  desc("objects", "Objects in the store of the watch."),
		bytes:    desc("estimated_bytes", "Estimated memory of the objects in the store of the watch."),
		events:   desc("events_total", "Events that the API server sent, by type.", "type"),
		restarts: desc("restarts_total", "LIST and WATCH requests that were sent again, by reason.", "reason"),
		sync:     desc("sync_seconds", "Duration of the last start until all objects were listed."),
		age:      desc("last_event_age_seconds", "Time since the API server last sent an event or bookmark."),
		audits:   total("audits_total", "Audits, which compare owners, states and goroutines of the watches. One a minute."),
		inconsistencies: total("inconsistencies_total",
			"Contradictions that audits found. Anything but 0 is a defect: please report it."),
		handOvers: total("incomplete_hand_overs_total",
			"Informers of kinds that are no longer served that stopped before their handler had received every event."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.state, c.owners, c.objects, c.bytes, c.events, c.restarts, c.sync, c.age, c.audits, c.inconsistencies, c.handOvers,
	} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, w := range c.registry.Watches() {
		gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, w.labels(labels...)...)
		}
		counter := func(desc *prometheus.Desc, value uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), w.labels(labels...)...)
		}
		gauge(c.state, 1, string(w.State), string(w.Reason))
		gauge(c.owners, float64(len(w.Owners)))
		gauge(c.objects, float64(w.Objects))
		gauge(c.bytes, float64(w.Bytes))
		if w.SyncTook > 0 {
			gauge(c.sync, w.SyncTook.Seconds())
		}
		if !w.LastEvent.IsZero() {
			gauge(c.age, time.Since(w.LastEvent).Seconds())
		}
		for kind, n := range w.Events {
			counter(c.events, n, string(kind))
		}
		for reason, n := range w.Restarts {
			counter(c.restarts, n, reason)
		}
	}
	ch <- prometheus.MustNewConstMetric(c.audits, prometheus.CounterValue, float64(c.registry.counts.audits.Load()))
	ch <- prometheus.MustNewConstMetric(c.inconsistencies, prometheus.CounterValue, float64(c.registry.counts.inconsistencies.Load()))
	ch <- prometheus.MustNewConstMetric(c.handOvers, prometheus.CounterValue, float64(c.registry.counts.incompleteHandOvers.Load()))
}

// labels returns the label values of a series.
func (w Watch) labels(more ...string) []string {
	return append([]string{w.Key.Cluster, w.Key.GVR.Group, w.Key.GVR.Version, w.Key.GVR.Resource, w.Key.Namespace}, more...)
}
