package main

import (
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/source/archive"
	"github.com/vidra-operator/vidra/pkg/sync"
)

// The flags of the receiver of webhooks.
const (
	webhookFlag    = "infrahub-webhook-bind-address"
	webhookKeyFlag = "infrahub-webhook-key-file"
)

// The flags of the server of published artifacts.
const (
	publishFlag    = "infrahub-publish-bind-address"
	publishURLFlag = "infrahub-publish-url"
)

// addInfrahub adds the controller of InfrahubSyncs and the receiver of webhooks to mgr, unless they are off.
func (o *options) addInfrahub(mgr manager.Manager, local *cluster.Cluster, secrets typedcorev1.SecretsGetter, events sync.Recorder) error {
	if !o.infrahub {
		return nil
	}
	counts := sync.NewMetrics()
	if err := metrics.Registry.Register(counts); err != nil {
		return err
	}
	credentials, _ := o.credentialsNamespace() // validate refuses an unknown one
	reconciler := &sync.Reconciler{
		Options: sync.Options{
			Installation: o.installation, Shard: o.shard, Namespace: ownNamespace(), CredentialsNamespace: credentials,
			LimitedNamespaces: o.scope.LimitsNamespaces(), InScope: o.scope.Namespace, UserAgent: mgr.GetConfig().UserAgent,
		},
		Recorder: events, Metrics: counts,
	}
	if namespace, name, found := strings.Cut(o.firstConfig, "/"); found {
		reconciler.Options.FirstConfig = types.NamespacedName{Namespace: namespace, Name: name}
	}
	var served error
	if o.publishAddress != "" {
		store := &archive.Store{Secrets: secrets, Namespace: o.namespace()}
		reconciler.Publication = &sync.Publication{Store: store, URL: o.publishURL}
		served = addEndpoint(mgr, publishFlag, o.publishAddress, archive.NewServer(store, mgr.GetLogger().WithName("infrahub-publish")), nil)
	}
	err := mgr.Add(&sync.Controller{Manager: mgr, Metadata: local.Metadata(), Reconciler: reconciler, Log: mgr.GetLogger().WithName("infrahub")})
	if o.webhookAddress == "" {
		return errors.Join(served, err)
	}
	receiver := (&sync.Receiver{
		KeyFile: o.webhookKeyFile, API: mgr.GetAPIReader(), Client: mgr.GetClient(), Installation: o.installation,
		Metrics: counts, Log: mgr.GetLogger().WithName("infrahub-webhook"),
	}).Complete()
	return errors.Join(served, err, mgr.Add(receiver), addEndpoint(mgr, webhookFlag, o.webhookAddress, receiver, nil))
}

// credentialsNamespace returns the namespace of the Secrets with credentials of Infrahub servers; empty for all. It is unknown if it is
// the namespace of the operator, and that is.
func (o *options) credentialsNamespace() (namespace string, known bool) {
	switch {
	case o.infrahubCredentials == allNamespaces:
		return metav1.NamespaceAll, true
	case o.infrahubCredentials == "" && (o.requireServiceAccount || o.scope.LimitsNamespaces()):
		own := o.namespace()
		return own, own != ""
	}
	return o.infrahubCredentials, true
}
