package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/events/recorder"
	"github.com/vidra-operator/vidra/pkg/reconcile"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/assignment"
	"github.com/vidra-operator/vidra/pkg/reconcile/backstop"
	reconcilemetrics "github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/source/flux"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// scheme knows the types that the operator reads and writes.
func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

// wire makes the parts and connects them. The Events of the reconciler go to the recorder and to the
// sinks in eventSinks. unfenced is for Events.
func wire(mgr manager.Manager, unfenced *rest.Config, o options, logs *logging, eventSinks sinks, lead *replica, inventories *status.Inventories) (*reconcile.Reconciler, sinks, error) {
	local, err := cluster.New(mgr.GetConfig())
	if err != nil {
		return nil, nil, err
	}
	eventsClient, err := typedeventsv1.NewForConfig(unfenced)
	if err != nil {
		return nil, nil, fmt.Errorf("make the client of Events: %w", err)
	}
	eventRecorder, err := recorder.New(eventsClient, metrics.Registry, recorder.Options{
		WithoutObjects: !o.objectEvents, Log: mgr.GetLogger().WithName("events"),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make the recorder of Events: %w", err)
	}
	eventSinks = append(eventSinks, eventRecorder)
	secrets, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, nil, fmt.Errorf("make the client of Secrets: %w", err)
	}
	additions, tools, err := o.toolsOf()
	if err != nil {
		return nil, nil, err
	}
	index := trigger.NewIndex()
	factory := trigger.NewFactory(index)
	factory.Installation = o.installation
	registry := newRegistry(mgr, local, factory, o.installation.ShardLabelKey(o.shard))
	reconciler := &reconcile.Reconciler{
		Assignment: assignment.Assignment{Installation: o.installation, Shard: o.shard},
		Clients:    reconcile.Clients{Client: mgr.GetClient(), API: mgr.GetAPIReader(), Metadata: local.Metadata()},
		Clusters:   access.Destinations{Local: local, LocalScope: o.scope},
		Accounts:   access.Accounts{Cache: mgr.GetClient(), Own: ownNamespace(), Required: o.requireServiceAccount, Impersonated: o.impersonation},
		Watching:   reconcile.Watching{Watches: registry, Index: index, Trigger: factory},
		Reports: reconcile.Reports{
			Recorder: eventSinks, Metrics: reconcilemetrics.New(), Inventories: inventories,
			LineSuppressed: logs.suppressed.WithLabelValues(suppressedObject).Inc,
		},
		Options: reconcile.Options{
			Artifacts: o.artifacts(local), Namespace: ownNamespace(),
			DefaultInterval: o.defaultInterval, BackstopInterval: o.backstopInterval, MaxBreakGlass: o.maxBreakGlass,
			Additions: additions, PeopleTools: tools, UserStamps: o.userStamps,
		},
		Secrets: reconcile.Secrets{
			Kept:       &source.Kept{Secrets: secrets, Namespace: o.namespace()},
			DigestKeys: &seal.Store{Secrets: secrets, Namespace: o.namespace(), Log: mgr.GetLogger().WithName("digests")},
		},
	}
	if o.shard != "" {
		reconciler.Assignment.Elsewhere = mgr.GetAPIReader()
	}
	if namespace, known := kubeconfigNamespace(o.kubeconfigNamespace, reconciler.Options.Namespace); known {
		reconciler.Clusters.Remotes = cluster.NewDestinations(cluster.DestinationsOptions{
			Secrets: secrets, Namespace: namespace, OnChange: reconciler.DestinationChanged,
			AllowInsecure: o.allowInsecure, AllowProxies: o.allowProxies,
			Warnings: mgr.GetConfig().WarningHandlerWithContext, UserAgent: mgr.GetConfig().UserAgent, Wrap: lead.wrap,
			Log: mgr.GetLogger().WithName("destinations"),
		})
		if err := mgr.Add(reconciler.Clusters.Remotes); err != nil {
			return nil, nil, fmt.Errorf("add the other clusters: %w", err)
		}
	}
	if err := o.addInfrahub(mgr, local, secrets, eventSinks); err != nil {
		return nil, nil, err
	}
	conditions := reconcilemetrics.NewConditions(mgr.GetCache(), o.installation)
	if err := register(metrics.Registry, registry.Collector("vidra"), factory, reconciler.Reports.Metrics, conditions, logs.suppressed); err != nil {
		return nil, nil, err
	}
	if err := o.addUnselected(mgr, local); err != nil {
		return nil, nil, err
	}
	return reconciler, eventSinks, errors.Join(mgr.Add(registry), mgr.Add(newReturnMemory()),
		mgr.Add(&standby{manager: mgr, local: local, registry: registry, scope: o.scope, waits: lead.waits}),
		o.addMetrics(mgr, map[string]http.Handler{watchesPath: registry, logLevelPath: logs.handler(o.metricsSecure)}),
		mgr.Add(&backstop.Lister{Watches: registry, Trigger: factory, Metrics: reconciler.Reports.Metrics, Interval: o.backstopInterval}),
		reconciler.SetupWithManager(mgr, o.workers), o.addProbes(mgr, func() {
			registry.Get(watchregistry.Key{}, "", "")
			index.Loaded(trigger.Owner{})
			reconciler.Known(trigger.Owner{})
		}))
}

// artifacts returns the sources with artifacts.
func (o *options) artifacts(local *cluster.Cluster) source.Kinds {
	hosts, _ := flux.ParseHosts(o.artifactHosts) // validate refuses others
	return flux.Sources(flux.Options{
		Kinds: local, Watched: local.Dynamic(), HTTP: flux.NewClient(hosts), Build: flux.NewBuilder(), AnyNamespace: o.crossNamespaceSources,
	})
}

// newRegistry makes the watches, whose events the factory judges. The objects of a shard have the label shard; it is
// empty without one.
func newRegistry(mgr manager.Manager, local *cluster.Cluster, factory *trigger.Factory, shard string) *watchregistry.Registry {
	enqueue := func(owner watchregistry.Owner) {
		if owner != standbyOwner {
			factory.EnqueueAll(owner)
		}
	}
	selector := v1alpha1.ManagedByLabel + "=" + v1alpha1.ManagedByValue
	if shard != "" {
		selector += "," + shard
	}
	logger := mgr.GetLogger().WithName("watchregistry")
	registry := watchregistry.New(watchregistry.Options{
		LabelSelector: selector,
		HandlerFor:    factory.HandlerFor,
		TransformFor:  factory.TransformFor,
		OnWatch: func(owner watchregistry.Owner, _ watchregistry.Key, _ watchregistry.Status) {
			enqueue(owner)
		},
		OnKind:   func(owner watchregistry.Owner, _ watchregistry.Kind) { factory.EnqueueRetry(owner) },
		OnRelist: func(owner watchregistry.Owner, _ watchregistry.Key) { enqueue(owner) },
		OnList: func(key watchregistry.Key) func(string) {
			listed := factory.BeginList(key.Cluster, key.GVR, key.Namespace)
			return func(resourceVersion string) {
				if listed(resourceVersion) {
					logger.Info("The API server was restored or replaced: its objects have lower versions than before. All of them are compared.", "watch", key.String())
				}
			}
		},
		Log: logger,
	})
	registry.AddCluster("", local)
	return registry
}

// syncedCheck is ready once the caches are synced, on every replica.
type syncedCheck struct {
	manager manager.Manager
	synced  atomic.Bool
}

// Start waits for the cache of VidraResources. It asks for it because the
// controller, which does too, starts later, and on the leader only.
func (c *syncedCheck) Start(ctx context.Context) error {
	_, err := c.manager.GetCache().GetInformer(ctx, &v1alpha1.VidraResource{})
	if err != nil && ctx.Err() == nil { // otherwise the operator ends before it was ready
		return fmt.Errorf("read the VidraResources: %w", err)
	}
	c.synced.Store(err == nil && c.manager.GetCache().WaitForCacheSync(ctx))
	return nil
}

// NeedLeaderElection is false: a replica that waits to lead is ready too.
func (c *syncedCheck) NeedLeaderElection() bool { return false }

func (c *syncedCheck) check(*http.Request) error {
	if !c.synced.Load() {
		return errors.New("the caches are not synced yet")
	}
	return nil
}
