package metrics

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// MaxNamedResources is the maximum number of VidraResources that have series with their
	// names.
	MaxNamedResources = 5000
	// maxReasons is the maximum number of reasons, with their conditions, that have a series.
	maxReasons = 128
	// maxReason is the maximum length of a reason.
	maxReason = 64
	// listTimeout is the maximum time that a scrape waits for the cache at the start.
	listTimeout = time.Second
)

// conditionTypes are the conditions that are counted. Other clients may write further ones into the
// status.
var conditionTypes = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionWatching, v1alpha1.ConditionDrifted,
	v1alpha1.ConditionSuspended, v1alpha1.ConditionUnmatchedIgnoreRules, v1alpha1.ConditionHealthy, v1alpha1.ConditionWarnings,
}

var statuses = []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}

// Conditions reports the conditions of VidraResources. It reads them from a cache at each scrape, so
// that the series of a VidraResource end with it. It implements prometheus.Collector.
type Conditions struct {
	reader       client.Reader
	installation v1alpha1.Installation

	condition, resources, unobserved *prometheus.Desc
}

// NewConditions returns a Conditions of the VidraResources of an installation. reader must be a cache.
func NewConditions(reader client.Reader, installation v1alpha1.Installation) *Conditions {
	return &Conditions{
		reader: reader, installation: installation,
		condition: prometheus.NewDesc("vidra_resource_condition",
			"1 for each condition of a VidraResource, with its status: True, False or Unknown. At most 5000 VidraResources have it, those first whose Ready is not True.",
			[]string{"name", "type", "status"}, nil),
		resources: prometheus.NewDesc("vidra_resources",
			"VidraResources by condition, its status and its reason. All VidraResources are counted.",
			[]string{"type", "status", "reason"}, nil),
		unobserved: prometheus.NewDesc("vidra_resource_unobserved",
			"1 for each VidraResource whose metadata.generation status.observedGeneration has not reached. One that is suspended, or waits for a release or a dependency, does not count. At most 5000 have it.",
			[]string{"name"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Conditions) Describe(to chan<- *prometheus.Desc) {
	to <- c.condition
	to <- c.resources
	to <- c.unobserved
}

// Collect implements prometheus.Collector. It reports only once the cache is synced.
func (c *Conditions) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	list := &v1alpha1.VidraResourceList{}
	if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is not synced, which readyz reports
	}
	var ours []*v1alpha1.VidraResource
	for i := range list.Items {
		if vr := &list.Items[i]; v1alpha1.InstallationOf(vr) == c.installation {
			ours = append(ours, vr)
		}
	}
	c.collectNamed(to, ours)
	c.collectReasons(to, ours)
	c.collectUnobserved(to, ours)
}

// collectUnobserved reports the VidraResources whose latest generation no operator has reconciled.
func (c *Conditions) collectUnobserved(to chan<- prometheus.Metric, all []*v1alpha1.VidraResource) {
	number := 0
	for _, vr := range all {
		if vr.Generation == vr.Status.ObservedGeneration || vr.Waits() || number == MaxNamedResources {
			continue
		}
		number++
		to <- prometheus.MustNewConstMetric(c.unobserved, prometheus.GaugeValue, 1, vr.Name)
	}
}

// collectNamed reports the conditions with the names of the VidraResources.
func (c *Conditions) collectNamed(to chan<- prometheus.Metric, all []*v1alpha1.VidraResource) {
	rank := func(vr *v1alpha1.VidraResource) int {
		if meta.IsStatusConditionTrue(vr.Status.Conditions, v1alpha1.ConditionReady) {
			return 1
		}
		return 0
	}
	if len(all) > MaxNamedResources {
		slices.SortFunc(all, func(a, b *v1alpha1.VidraResource) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
		})
		all = all[:MaxNamedResources]
	}
	for _, vr := range all {
		for condition := range counted(vr) {
			to <- prometheus.MustNewConstMetric(c.condition, prometheus.GaugeValue, 1, vr.Name, condition.Type, string(condition.Status))
		}
	}
}

// state is a condition without its uncounted parts.
type state struct{ condition, status, reason string }

// collectReasons reports how many VidraResources have each condition.
func (c *Conditions) collectReasons(to chan<- prometheus.Metric, all []*v1alpha1.VidraResource) {
	number := map[state]int{}
	for _, vr := range all {
		for condition := range counted(vr) {
			s := state{condition.Type, string(condition.Status), condition.Reason}
			if _, known := number[s]; !known && (len(number) >= maxReasons || len(s.reason) > maxReason) {
				s.reason = otherManager
			}
			number[s]++
		}
	}
	for s, n := range number {
		to <- prometheus.MustNewConstMetric(c.resources, prometheus.GaugeValue, float64(n), s.condition, s.status, s.reason)
	}
}

// counted returns the conditions of a VidraResource that Vidra writes, each type once.
func counted(vr *v1alpha1.VidraResource) iter.Seq[metav1.Condition] {
	return func(yield func(metav1.Condition) bool) {
		for _, known := range conditionTypes {
			i := slices.IndexFunc(vr.Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == known && slices.Contains(statuses, c.Status)
			})
			if i >= 0 && !yield(vr.Status.Conditions[i]) {
				return
			}
		}
	}
}
