package main

import (
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/sync"
)

// The flags of the receiver of webhooks.
const (
	webhookFlag    = "infrahub-webhook-bind-address"
	webhookKeyFlag = "infrahub-webhook-key-file"
)

// addInfrahub adds the controller of InfrahubSyncs and the receiver of webhooks to mgr, unless they are off.
func (o *options) addInfrahub(mgr manager.Manager, local *cluster.Cluster, events sync.Recorder) error {
	if !o.infrahub {
		return nil
	}
	counts := sync.NewMetrics()
	if err := metrics.Registry.Register(counts); err != nil {
		return err
	}
	reconciler := &sync.Reconciler{
		Installation: o.installation, Shard: o.shard, Namespace: ownNamespace(), CredentialsNamespace: o.credentialsNamespace(),
		LimitedNamespaces: o.scope.LimitsNamespaces(), UserAgent: mgr.GetConfig().UserAgent, Recorder: events, Metrics: counts,
	}
	if namespace, name, found := strings.Cut(o.firstConfig, "/"); found {
		reconciler.FirstConfig = types.NamespacedName{Namespace: namespace, Name: name}
	}
	err := mgr.Add(&sync.Controller{Manager: mgr, Metadata: local.Metadata(), Reconciler: reconciler, Log: mgr.GetLogger().WithName("infrahub")})
	if o.webhookAddress == "" {
		return err
	}
	return errors.Join(err, mgr.Add(&sync.Receiver{
		Address: o.webhookAddress, KeyFile: o.webhookKeyFile, API: mgr.GetAPIReader(), Client: mgr.GetClient(), Installation: o.installation,
		Metrics: counts, Log: mgr.GetLogger().WithName("infrahub-webhook"),
	}))
}

// credentialsNamespace returns the namespace of the Secrets with credentials of Infrahub servers; empty for all.
func (o *options) credentialsNamespace() string {
	switch {
	case o.infrahubCredentials == allNamespaces:
		return metav1.NamespaceAll
	case o.infrahubCredentials == "" && (o.requireServiceAccount || o.scope.LimitsNamespaces()):
		return ownNamespace()
	}
	return o.infrahubCredentials
}
