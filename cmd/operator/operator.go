package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/events/recorder"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	reconcilemetrics "github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

const (
	// shutdownTimeout is how long the manager may take to end, up to where it gives the
	// Lease back: passes end, and the last statuses are written, for flushTimeout at most.
	// That is shorter than the time until another instance takes the Lease.
	shutdownTimeout = 8 * time.Second
	flushTimeout    = 6 * time.Second
	// tellTimeout is how long passes may take to end that did not within shutdownTimeout,
	// or that the loss of the Lease has interrupted. events.FlushTimeout comes after it.
	tellTimeout = 2 * time.Second
	// watchesPath is the path at which the metrics endpoint shows, to clients that may get it, what is
	// watched.
	watchesPath = "/watches"
)

// The values of --event-values.
const (
	eventValuesAll  = "all"
	eventValuesNone = "none"
)

// options are the flags of the operator.
type options struct {
	version        bool
	metricsAddress string
	metricsSecure  bool
	probeAddress   string
	leaderElect    bool
	leaseNamespace string
	workers        int

	installation          v1alpha1.Installation
	kubeconfigNamespace   string
	allowInsecure         bool
	allowProxies          bool
	requireServiceAccount bool
	impersonation         labels.Selector
	backstopInterval      time.Duration
	maxBreakGlass         time.Duration
	sink                  string
	objectEvents          bool
	additions             string
	peopleTools           string
	eventValues           string
}

// bind makes the options flags.
func (o *options) bind(fs *flag.FlagSet) {
	fs.BoolVar(&o.version, "version", false, "Print the version and exit.")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "The address of the metrics endpoint, which also serves /watches; 0 disables it.")
	fs.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"Serve metrics over HTTPS, to clients that the API server authenticates and that may get /metrics or /watches. When false: over HTTP, to every client.")
	fs.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "The address of /healthz and /readyz; 0 disables them.")
	fs.BoolVar(&o.leaderElect, "leader-elect", false, "Reconcile only while holding a Lease, so that several replicas can run.")
	fs.StringVar(&o.leaseNamespace, "leader-election-namespace", "", "The namespace of that Lease. Defaults to the namespace of the operator; required outside of a cluster.")
	fs.Func("installation", "The `name` of this installation of Vidra, a DNS label. It reconciles the VidraResources with the label "+
		v1alpha1.InstallationLabel+"=NAME; without the flag, those without the label. Needed where several installations write to one cluster.",
		func(name string) (err error) {
			o.installation, err = v1alpha1.ParseInstallation(name)
			return err
		})
	fs.IntVar(&o.workers, "workers", 8, "How many VidraResources are reconciled at a time. Some of these workers never reconcile VidraResources of other clusters.")
	fs.StringVar(&o.kubeconfigNamespace, "kubeconfig-namespace", "",
		"The namespace of the Secrets with the label cluster-kubeconfig, which hold the kubeconfigs of other clusters; * means all namespaces. "+
			"Defaults to the namespace of the operator. Outside of a Pod there is no default: without this flag, other clusters are not reachable.")
	fs.BoolVar(&o.allowInsecure, cluster.AllowInsecureFlag, false,
		"Accept kubeconfigs of other clusters with insecure-skip-tls-verify, or with a server whose URL begins with http://.")
	fs.BoolVar(&o.allowProxies, cluster.AllowProxiesFlag, false,
		"Accept kubeconfigs of other clusters with a proxy-url.")
	fs.BoolVar(&o.requireServiceAccount, "require-service-account", false,
		"Refuse VidraResources without spec.serviceAccountName, and those that name an account of kube-system or of the operator's namespace, so that no object is written with the rights of the operator.")
	fs.Func("impersonation-namespaces", "The label `selector` of the namespaces whose ServiceAccounts VidraResources may name. Defaults to all namespaces.",
		func(selector string) (err error) {
			o.impersonation, err = labels.Parse(selector)
			return err
		})
	fs.DurationVar(&o.backstopInterval, "backstop-interval", reconcile.DefaultBackstopInterval,
		"How often every watched object is compared with the API server by a dry run, in case an event was lost. 0 disables it.")
	fs.DurationVar(&o.maxBreakGlass, "max-break-glass", v1alpha1.DefaultMaxBreakGlass,
		"For how long break-glass annotations exempt an object at most, where spec.drift.maxBreakGlass is not set. 0 accepts no break-glass.")
	fs.BoolVar(&o.objectEvents, "object-events", true,
		"Also write Events about managed objects, not only about VidraResources: "+
			"ChangeReverted, BreakGlassAccepted, BreakGlassIgnored and BreakGlassEnded.")
	fs.StringVar(&o.eventValues, "event-values", eventValuesAll,
		"Which values of fields are shown in Events, statuses, CloudEvents and the log: all, except those of Secrets, of annotated objects and of environment variables; or none.")
	fs.StringVar(&o.additions, "drift-additions", string(v1alpha1.AdditionsKeep),
		"What Vidra does about fields that users add to objects, where spec.drift.additions is not set: Keep, Warn or Revert.")
	fs.StringVar(&o.peopleTools, "people-tools", strings.Join(ownership.DefaultTools, ","),
		"The field managers of tools with which users, not controllers, edit objects, with * for any text, separated by commas. Only what these add is an addition.")
	fs.StringVar(&o.sink, sinkFlag, "", "The http or https URL to which the operator also sends its Events, as CloudEvents; none if empty.")
}

// run runs the operator until ctx ends.
func run(ctx context.Context, o options) error {
	if o.workers < 1 {
		return fmt.Errorf("--workers is %d: at least one is needed", o.workers)
	}
	switch o.eventValues {
	case eventValuesAll:
	case eventValuesNone:
		ownership.WithholdValues()
	default:
		return fmt.Errorf("--event-values is %q: it must be %s or %s", o.eventValues, eventValuesAll, eventValuesNone)
	}
	if o.maxBreakGlass < 0 {
		return fmt.Errorf("--max-break-glass is %s: give 0 to accept no break-glass", o.maxBreakGlass)
	}
	if _, _, err := o.toolsOf(); err != nil {
		return err
	}
	told, err := cloudEventsSink(o.sink)
	if err != nil {
		return err
	}
	restConfig, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find a cluster: %w: run in a Pod, or give --kubeconfig", err)
	}
	nameRequests(restConfig)
	restConfig.QPS, restConfig.Burst = -1, 0 // the API server limits, not we
	restConfig.WarningHandlerWithContext = apply.Warnings{
		Otherwise: log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{Deduplicate: true}),
	}
	mgr, err := newManager(restConfig, o)
	if err != nil {
		return err
	}
	reconciler, recorder, err := wire(mgr, o, told)
	if err != nil {
		return err
	}
	if err := mgr.Add(lastStatuses(ctx, reconciler, !o.leaderElect)); err != nil {
		return fmt.Errorf("have the last statuses written: %w", err)
	}
	return runAll(ctx, mgr, reconciler, recorder)
}

// lastStatuses writes the heals that no status has yet when the manager ends because
// ctx does, or because of an error if no other replica can lead. Otherwise the Lease
// may be lost. Like the controllers, it runs while this replica leads: the manager
// waits for it before it gives the Lease back.
func lastStatuses(ctx context.Context, reconciler *reconcile.Reconciler, alone bool) manager.Runnable {
	return manager.RunnableFunc(func(leading context.Context) error {
		<-leading.Done()
		if ctx.Err() == nil && !alone {
			return nil
		}
		flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		return reconciler.Flush(flushing)
	})
}

// runAll runs the manager until ctx ends or it fails. Then it writes the pending Events, even if
// another instance is the leader by then.
func runAll(ctx context.Context, mgr manager.Manager, reconciler *reconcile.Reconciler, recorder sinks) error {
	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecording()
	recorded := make(chan error, 1)
	go func() { recorded <- recorder.Start(recording) }()

	err := mgr.Start(ctx)
	if err != nil {
		err = fmt.Errorf("run the operator: %w", err)
	}
	telling, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	err = errors.Join(err, reconciler.FlushEvents(telling))
	stopRecording()
	return errors.Join(err, <-recorded)
}

// newManager makes the manager that owns the clients, caches and endpoints.
func newManager(restConfig *rest.Config, o options) (manager.Manager, error) {
	s, err := scheme()
	if err != nil {
		return nil, err
	}
	metricsOptions := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure}
	if o.metricsSecure {
		metricsOptions.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	shutdown, renew := shutdownTimeout, renewDeadline
	managerOptions := ctrl.Options{
		Scheme:                        s,
		Metrics:                       metricsOptions,
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName(o.installation),
		LeaderElectionReleaseOnCancel: true, // the process ends right after
		RenewDeadline:                 &renew,
		GracefulShutdownTimeout:       &shutdown,
	}
	var lock *installationLock
	if o.leaderElect {
		if lock, err = newInstallationLock(restConfig, o, log.Log.WithName("lease")); err != nil {
			return nil, err
		}
		managerOptions.LeaderElectionResourceLockInterface = lock
	}
	mgr, err := ctrl.NewManager(restConfig, managerOptions)
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	if lock != nil { // its Events need the manager
		lock.LockConfig.EventRecorder = mgr.GetEventRecorderFor(lock.Identity()) //nolint:staticcheck // a Lock takes no other one
	}
	return mgr, nil
}

// scheme knows the types that the operator reads and writes.
func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

// wire makes the parts and connects them. The Events of the reconciler go to the recorder and to the
// sinks in told.
func wire(mgr manager.Manager, o options, told sinks) (*reconcile.Reconciler, sinks, error) {
	local, err := cluster.New(mgr.GetConfig())
	if err != nil {
		return nil, nil, err
	}
	eventsClient, err := typedeventsv1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, nil, fmt.Errorf("make the client of Events: %w", err)
	}
	eventRecorder, err := recorder.New(eventsClient, metrics.Registry, recorder.Options{
		WithoutObjects: !o.objectEvents, Log: mgr.GetLogger().WithName("events"),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make the recorder of Events: %w", err)
	}
	told = append(told, eventRecorder)
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
	registry := newRegistry(mgr, local, factory)
	reconciler := &reconcile.Reconciler{
		Installation: o.installation,
		Client:       mgr.GetClient(), Local: local, Watches: registry,
		Index: index, Trigger: factory, Recorder: told, Metrics: reconcilemetrics.New(), Metadata: local.Metadata(),
		DigestKeys: &seal.Store{
			Secrets: secrets, Namespace: cmp.Or(ownNamespace(), o.leaseNamespace), Log: mgr.GetLogger().WithName("digests"),
		},
		Namespace: ownNamespace(), RequireServiceAccount: o.requireServiceAccount, BackstopInterval: o.backstopInterval,
		ImpersonationNamespaces: o.impersonation,
		MaxBreakGlass:           o.maxBreakGlass,
		Additions:               additions, PeopleTools: tools,
	}
	if namespace, known := kubeconfigNamespace(o.kubeconfigNamespace, reconciler.Namespace); known {
		reconciler.Remotes = cluster.NewDestinations(cluster.DestinationsOptions{
			Secrets: secrets, Namespace: namespace, OnChange: reconciler.DestinationChanged,
			AllowInsecure: o.allowInsecure, AllowProxies: o.allowProxies,
			Warnings: mgr.GetConfig().WarningHandlerWithContext, UserAgent: mgr.GetConfig().UserAgent, Log: mgr.GetLogger().WithName("destinations"),
		})
		if err := mgr.Add(reconciler.Remotes); err != nil {
			return nil, nil, fmt.Errorf("add the other clusters: %w", err)
		}
	}
	for _, collector := range []prometheus.Collector{registry.Collector("vidra"), factory, reconciler.Metrics} {
		if err := metrics.Registry.Register(collector); err != nil {
			return nil, nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return reconciler, told, errors.Join(mgr.Add(registry), mgr.AddMetricsServerExtraHandler(watchesPath, registry),
		reconciler.SetupWithManager(mgr, o.workers), addProbes(mgr))
}

// newRegistry makes the watches, whose events the factory judges.
func newRegistry(mgr manager.Manager, local *cluster.Cluster, factory *trigger.Factory) *watchregistry.Registry {
	registry := watchregistry.New(watchregistry.Options{
		LabelSelector: v1alpha1.ManagedByLabel + "=" + v1alpha1.ManagedByValue,
		HandlerFor:    factory.HandlerFor,
		TransformFor:  factory.TransformFor,
		OnWatch: func(owner watchregistry.Owner, _ watchregistry.Key, _ watchregistry.Status) {
			factory.EnqueueAll(owner)
		},
		OnKind:   func(owner watchregistry.Owner, _ watchregistry.Kind) { factory.EnqueueAll(owner) },
		OnRelist: func(owner watchregistry.Owner, _ watchregistry.Key) { factory.EnqueueAll(owner) },
		Log:      mgr.GetLogger().WithName("watchregistry"),
	})
	registry.AddCluster("", local)
	return registry
}

// addProbes makes the process live while it runs and ready when its caches are
// synced.
func addProbes(mgr manager.Manager) error {
	synced := &syncedCheck{manager: mgr}
	return errors.Join(mgr.Add(synced), mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", synced.check))
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
