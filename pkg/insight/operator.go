package insight

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/source/flux"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Operator are the settings of the operator that decide about objects and edits. The zero value has its defaults.
type Operator struct {
	// Additions is the policy where spec.drift.additions is unset. Defaults to Keep.
	Additions v1alpha1.AdditionsPolicy
	// Tools are the field managers of users' tools. Defaults to ownership.DefaultTools.
	Tools ownership.Tools
	// MaxBreakGlass is how long break-glass exempts an object at most, where spec.drift.maxBreakGlass is unset. Defaults to
	// v1alpha1.DefaultMaxBreakGlass.
	MaxBreakGlass *time.Duration
	// Namespaces are the limits of the operator; empty for all.
	Namespaces []string
	// RequireServiceAccount reports that the operator refuses VidraResources that name no account.
	RequireServiceAccount bool
	// ImpersonationNamespaces is the selector of the namespaces whose accounts VidraResources may name; empty for all.
	ImpersonationNamespaces string
	// ArtifactHosts are the hosts from which artifacts are fetched. Defaults to Services of the cluster.
	ArtifactHosts []string
	// CrossNamespaceSources reports that the operator accepts sources of Flux in all namespaces.
	CrossNamespaceSources bool
	// AllowInsecureKubeconfigs and AllowKubeconfigProxies report that the operator accepts kubeconfigs of other clusters without TLS, and with
	// a proxy-url.
	AllowInsecureKubeconfigs, AllowKubeconfigProxies bool
}

// decisions are the settings of the operator in the form of its packages.
type decisions struct {
	operator Operator

	scope        cluster.Scope
	impersonated labels.Selector
}

// decisions returns the settings as the packages of the operator have them.
func (o Operator) decisions() (d decisions, err error) {
	d.operator = o
	if d.operator.Tools == nil {
		d.operator.Tools = ownership.DefaultTools
	}
	if err := d.operator.Tools.Validate(); err != nil {
		return d, fmt.Errorf("the tools of users: %w", err)
	}
	policies := []v1alpha1.AdditionsPolicy{"", v1alpha1.AdditionsKeep, v1alpha1.AdditionsWarn, v1alpha1.AdditionsRevert}
	if !slices.Contains(policies, d.operator.Additions) {
		return d, fmt.Errorf("the policy for additions is %q: it must be Keep, Warn or Revert", d.operator.Additions)
	}
	if d.scope, err = cluster.LocalScope(o.Namespaces...); err != nil {
		return d, fmt.Errorf("the namespaces of the operator: %w", err)
	}
	if o.ImpersonationNamespaces != "" {
		if d.impersonated, err = labels.Parse(o.ImpersonationNamespaces); err != nil {
			return d, fmt.Errorf("the namespaces whose accounts the operator impersonates: %w", err)
		}
	}
	return d, nil
}

// sources reads the parts that spec.manifestFrom names, with the rights of a user. The API server forwards requests for artifacts at Services.
func (d *decisions) sources(config *rest.Config, at *cluster.Cluster) (source.Kinds, error) {
	hosts := flux.ServiceHosts
	if len(d.operator.ArtifactHosts) > 0 {
		var err error
		if hosts, err = flux.ParseHosts(strings.Join(d.operator.ArtifactHosts, ",")); err != nil {
			return nil, fmt.Errorf("the hosts of artifacts: %w", err)
		}
	}
	client, err := flux.NewForwardedClient(hosts, config)
	if err != nil {
		return nil, err
	}
	kinds := source.Objects(nil)
	maps.Copy(kinds, flux.Sources(flux.Options{Kinds: at, HTTP: client, AnyNamespace: d.operator.CrossNamespaceSources}))
	return kinds, nil
}

// accounts decides about the accounts that VidraResources name.
func (d *decisions) accounts(cache client.Reader) access.Accounts {
	return access.Accounts{Cache: cache, Required: d.operator.RequireServiceAccount, Impersonated: d.impersonated}
}

// maxBreakGlass is how long break-glass exempts an object of a VidraResource at most.
func (d *decisions) maxBreakGlass(vr *v1alpha1.VidraResource) time.Duration {
	return vr.MaxBreakGlass(ptr.Deref(d.operator.MaxBreakGlass, v1alpha1.DefaultMaxBreakGlass))
}

// settings are the settings of the operator for the objects of a VidraResource.
func (d *decisions) settings(vr *v1alpha1.VidraResource, by object.Signature) *plan.Settings {
	inventory := make([]*plan.Object, len(vr.Status.ManagedResources))
	for i := range inventory {
		inventory[i] = &plan.Object{Entry: &vr.Status.ManagedResources[i]}
	}
	return &plan.Settings{
		Claimant: owners.Claimant{Owner: trigger.Owner{Name: vr.Name}, Installation: v1alpha1.InstallationOf(vr), Manager: by.Manager, WithoutKeys: true},
		UID:      vr.UID, Adopt: vr.AdoptPolicy(), Force: vr.Spec.Force, UnmanagedContents: vr.Spec.UnmanagedContents,
		BreakGlass: plan.BreakGlassSettings{
			Max: d.maxBreakGlass(vr), Room: sync.OnceValue(func() *atomic.Int64 { return plan.NewBreakGlassRoom(inventory) }),
			Within: func(container object.Identity) string { return plan.ExemptWithin(inventory, container, time.Now()) },
		},
		Additions: plan.AdditionsOf(vr, d.operator.Additions, d.operator.Tools), Tools: d.operator.Tools,
	}
}
