package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/reconcile/tracing"
)

const (
	// shutdownTimeout is how long the manager may take to end, up to where it gives the
	// Lease back: reconciles end, and the last statuses are written, for flushTimeout at most.
	// That is shorter than the time until another instance takes the Lease.
	shutdownTimeout = 8 * time.Second
	flushTimeout    = 6 * time.Second
	// interruptedTimeout is how long reconciles may take to end that have exceeded shutdownTimeout,
	// or that the loss of the Lease has interrupted. events.FlushTimeout comes after it.
	interruptedTimeout = 2 * time.Second
	// watchesPath is the path of the watches on the metrics endpoint, for clients that may get it.
	watchesPath = "/watches"
	// logLevelPath is the path of the metrics endpoint with the level of the log, which clients that may put it can change.
	logLevelPath = "/loglevel"
)

// The values of --event-values.
const (
	eventValuesAll  = "all"
	eventValuesNone = "none"
)

// run runs the operator until ctx ends.
func run(ctx context.Context, o options, logs *logging) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.eventValues == eventValuesNone {
		ownership.WithholdValues()
	}
	eventSinks, err := o.cloudEventsSink()
	if err != nil {
		return err
	}
	restConfig, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find a cluster: %w: run in a Pod, or give --kubeconfig", err)
	}
	nameRequests(restConfig)
	restConfig.Wrap(cluster.WithoutCredentials)
	if err := o.readFirstOperator(ctx, restConfig, log.Log.WithName("config")); err != nil {
		return err
	}
	restConfig.QPS, restConfig.Burst = -1, 0 // the API server limits, not we
	restConfig.WarningHandlerWithContext = apply.Warnings{
		Otherwise: log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{Deduplicate: true}),
	}
	lead := newReplica()
	unfenced := rest.CopyConfig(restConfig)
	unfenced.Wrap(tracing.Transport)
	restConfig.Wrap(cluster.LimitRetryAfter)
	restConfig.Wrap(lead.wrap)
	relister := cluster.NewRelister()
	restConfig.Wrap(relister.Wrap)
	if err := metrics.Registry.Register(newWatched(relister, o.shard)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	inventories := &status.Inventories{}
	mgr, err := newManager(restConfig, unfenced, o, lead, inventories)
	if err != nil {
		return err
	}
	reconciler, recorder, err := wire(mgr, unfenced, o, logs, eventSinks, lead, inventories)
	if err != nil {
		return err
	}
	if err := mgr.Add(lastStatuses(ctx, reconciler, !o.leaderElect)); err != nil {
		return fmt.Errorf("have the last statuses written: %w", err)
	}
	stopTracing, err := startTracing(ctx)
	if err != nil {
		return err
	}
	defer stopTracing()
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
	flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptedTimeout)
	defer cancel()
	err = errors.Join(err, reconciler.FlushEvents(flushing))
	stopRecording()
	return errors.Join(err, <-recorded)
}

// newManager makes the manager that owns the clients, caches and endpoints. unfenced is for the Lease.
func newManager(restConfig, unfenced *rest.Config, o options, lead *replica, inventories *status.Inventories) (manager.Manager, error) {
	s, err := scheme()
	if err != nil {
		return nil, err
	}
	pprof, err := o.pprof()
	if err != nil {
		return nil, err
	}
	shutdown, renew := shutdownTimeout, renewDeadline
	managerOptions := ctrl.Options{
		Scheme:                        s,
		Logger:                        log.Log.WithSink(orderlyEnd{log.Log.GetSink()}),
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // see addMetrics
		PprofBindAddress:              pprof,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName(o.installation, o.shard),
		LeaderElectionReleaseOnCancel: true, // the process ends right after
		RenewDeadline:                 &renew,
		GracefulShutdownTimeout:       &shutdown,
	}
	cached := cache.ByObject{Transform: compact(inventories)}
	if o.shard != "" {
		cached.Label = o.shard.Selector()
		log.Log.WithName("shard").Info("Reconciles the VidraResources of a shard", "selector", o.shard,
			"label", o.installation.ShardLabelKey(o.shard), "lease", managerOptions.LeaderElectionID)
	}
	managerOptions.Cache.ByObject = map[client.Object]cache.ByObject{&v1alpha1.VidraResource{}: cached}
	var lock *installationLock
	if o.leaderElect {
		if lock, err = newInstallationLock(unfenced, o, lead, log.Log.WithName("lease")); err != nil {
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
