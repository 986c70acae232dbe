package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	reconcilemetrics "github.com/vidra-operator/vidra/pkg/reconcile/metrics"
)

const (
	// selectorAnnotation of the Lease of a shard has the label selector of the shard.
	selectorAnnotation = "infrahub.operators.com/shard-selector"
	// shardAway is how long after the end of its Lease a shard still counts: a restart takes less.
	shardAway = 2 * time.Minute
	// leasesTimeout bounds the LIST of the Leases for a scrape.
	leasesTimeout = 2 * time.Second
)

// unselected reports the VidraResources that no operator selects, where there are several shards: no label selector matches their
// labels, or the operators of the shard are stopped. It watches the metadata of all VidraResources, and reads the Leases of the shards
// when the metrics are read. It implements prometheus.Collector.
type unselected struct {
	own       v1alpha1.Shard
	of        v1alpha1.Installation
	informer  cache.SharedIndexInformer
	leases    typedcoordinationv1.LeaseInterface
	resources *prometheus.Desc
	log       logr.Logger
}

// newUnselected returns the report of an operator of a shard. leases are the Leases of its namespace.
func newUnselected(o options, client metadata.Interface, leases typedcoordinationv1.LeaseInterface, log logr.Logger) (*unselected, error) {
	u := &unselected{
		own: o.shard, of: o.installation, leases: leases, log: log,
		informer: metadatainformer.NewFilteredMetadataInformer(client, v1alpha1.Resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		resources: prometheus.NewDesc("vidra_resource_unselected",
			"1 for each VidraResource that no running operator selects (--watch-label-selector). At most 5000 have it.", []string{"name"}, nil),
	}
	err := u.informer.SetTransform(func(obj any) (any, error) {
		if vr, is := obj.(*metav1.PartialObjectMetadata); is {
			vr.ManagedFields, vr.Annotations = nil, nil
		}
		return obj, nil
	})
	if err != nil {
		return nil, fmt.Errorf("watch the labels of VidraResources: %w", err)
	}
	return u, nil
}

// addUnselected has an operator of a shard report VidraResources that no shard selects. Without leader election the shards are
// unknown.
func (o options) addUnselected(mgr manager.Manager, local *cluster.Cluster) error {
	if o.shard == "" || !o.leaderElect {
		return nil
	}
	leases, err := typedcoordinationv1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make the client of the Leases of shards: %w", err)
	}
	u, err := newUnselected(o, local.Metadata(), leases.Leases(cmp.Or(o.leaseNamespace, ownNamespace())), mgr.GetLogger().WithName("shard"))
	if err != nil {
		return err
	}
	return errors.Join(metrics.Registry.Register(u), mgr.Add(u))
}

// Start watches the VidraResources until ctx ends.
func (u *unselected) Start(ctx context.Context) error {
	u.informer.RunWithContext(ctx)
	return nil
}

// NeedLeaderElection is false: a replica that waits reports them, too.
func (u *unselected) NeedLeaderElection() bool { return false }

// Describe implements prometheus.Collector.
func (u *unselected) Describe(to chan<- *prometheus.Desc) { to <- u.resources }

// Collect implements prometheus.Collector. It reports nothing while the VidraResources or the shards are unknown.
func (u *unselected) Collect(to chan<- prometheus.Metric) {
	if !u.informer.HasSynced() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leasesTimeout)
	defer cancel()
	leases, err := u.leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		u.log.Info("Cannot list the Leases of the other shards, so that no VidraResource is reported as unselected", "error", err.Error())
		return
	}
	shards, known := shardsIn(leases.Items, u.of, time.Now())
	if !known {
		return
	}
	shards = append(shards, u.own)
	var names []string
	for _, obj := range u.informer.GetStore().List() {
		vr, is := obj.(*metav1.PartialObjectMetadata)
		if is && !selected(vr, u.of, shards) {
			names = append(names, vr.Name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), reconcilemetrics.MaxNamedResources)] {
		to <- prometheus.MustNewConstMetric(u.resources, prometheus.GaugeValue, 1, name)
	}
}

// shardsIn returns the shards of an installation whose operators run, from the Leases of their namespace. They are unknown where an
// operator has no shard, or is of a version that does not write its selector.
func shardsIn(leases []coordinationv1.Lease, of v1alpha1.Installation, now time.Time) (shards []v1alpha1.Shard, known bool) {
	for i := range leases {
		lease := &leases[i]
		if !held(lease) || now.After(lease.Spec.RenewTime.Add(durationOf(lease)+shardAway)) {
			continue
		}
		shard, err := v1alpha1.ParseShard(lease.Annotations[selectorAnnotation])
		switch all := leaseName(of, ""); {
		case lease.Name == all:
			return nil, false
		case err == nil && shard != "" && lease.Name == leaseName(of, shard):
			shards = append(shards, shard)
		case strings.HasSuffix(lease.Name, ".shard."+all):
			return nil, false
		}
	}
	return shards, true
}

// selected reports whether a VidraResource is of another installation, or one of the shards has it.
func selected(vr *metav1.PartialObjectMetadata, of v1alpha1.Installation, shards []v1alpha1.Shard) bool {
	full := &v1alpha1.VidraResource{ObjectMeta: vr.ObjectMeta}
	return v1alpha1.InstallationOf(full) != of || slices.ContainsFunc(shards, func(s v1alpha1.Shard) bool { return s.Has(full) })
}
