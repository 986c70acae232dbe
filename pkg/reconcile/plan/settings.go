package plan

import (
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// Additions is the policy for the additions of users to the objects of a VidraResource, with the field managers of users: none
// with Keep.
type Additions struct {
	Policy v1alpha1.AdditionsPolicy
	Tools  ownership.Tools
}

// AdditionsOf is the policy of a VidraResource. otherwise is the default. A mode that ignores drift ignores additions, and so does a policy that only
// another version knows.
func AdditionsOf(vr *v1alpha1.VidraResource, otherwise v1alpha1.AdditionsPolicy, tools ownership.Tools) Additions {
	policy := vr.Additions(otherwise)
	if policy != v1alpha1.AdditionsWarn && policy != v1alpha1.AdditionsRevert || vr.DriftMode() == v1alpha1.DriftIgnore {
		return Additions{Policy: v1alpha1.AdditionsKeep}
	}
	return Additions{Policy: policy, Tools: tools}
}

// ConfigurationOf returns the configuration of an object under the policy: another policy than Keep is a part of it, so that another one has
// every object applied.
func (a Additions) ConfigurationOf(configuration string) string {
	if a.Policy == v1alpha1.AdditionsKeep {
		return configuration
	}
	return object.Identify([]byte(configuration), []byte(string(a.Policy)+":"+strings.Join(a.Tools, ",")))
}

// Undo describes the additions of users to an object, whatever their age.
func (a Additions) Undo(o *desired.Object, manager string, known ownership.Disclosure) ownership.Undo {
	return ownership.Undo{
		Manager: manager, Prefix: v1alpha1.FieldManagerPrefix, Configuration: o.Unstructured().Object,
		BeforeKnown: true, Scope: ownership.Everything, Known: known,
		Keep: func(manager string, path []string) bool {
			return !a.Tools.Has(manager) || ownership.KeptAddition(path) || o.Rules.Exemptions.Exempts(manager, path)
		},
	}
}

// In returns the additions of users to an object; empty with Keep.
func (a Additions) In(live *unstructured.Unstructured, o *desired.Object, manager string, known ownership.Disclosure) ownership.Addition {
	if live == nil || len(a.Tools) == 0 {
		return ownership.Addition{}
	}
	if _, found := a.Tools.Digest(live, manager); !found {
		return ownership.Addition{}
	}
	return a.Undo(o, manager, known).Added(live, live)
}

// Settings apply to all objects of one VidraResource in one reconcile.
type Settings struct {
	Claimant owners.Claimant
	// UID is the UID of the VidraResource.
	UID types.UID
	// Adopt is the policy for objects that exist.
	Adopt v1alpha1.AdoptPolicy
	// Force reports that objects with unchangeable fields are deleted and created again.
	Force bool
	// UnmanagedContents is the policy for unmanaged objects in a container that is to be deleted.
	UnmanagedContents v1alpha1.UnmanagedContents
	BreakGlass        BreakGlassSettings
	// Additions is the policy for additions of users to the objects.
	Additions Additions
	// Tools are the field managers of the clients that users work with.
	Tools ownership.Tools
	// Stamped reports that the annotation ownership.EditedByAnnotation of an object can be trusted.
	Stamped bool
	// Checks compute the health of the objects, by spec.healthChecks, if any.
	Checks *healthcheck.Checks
	// Watched reports whether events of the objects are wanted.
	Watched bool
	// Allowed is the part of the destination that Vidra may use. It is known when that is connected.
	Allowed cluster.Scope
}

// BreakGlassSettings are the settings for break-glass annotations.
type BreakGlassSettings struct {
	// Max is how long they exempt an object at most.
	Max time.Duration
	// Room is how many more objects may get an answer to them.
	Room func() *atomic.Int64
	// Within describes an exempt object of the inventory that would be deleted with a container; empty without one.
	Within func(container object.Identity) string
}

// Adoption is an existing, unmanaged object, with the fields that its adoption would change. adopted is the answer
// to a dry run of the apply, and applied is the configuration that is applied. known is the decision about values of the object.
func (s *Settings) Adoption(key trigger.ObjectKey, live, adopted, applied *unstructured.Unstructured, known ownership.Disclosure) policy.Adoption {
	adoption := policy.Adoption{Policy: s.Adopt}
	if differs := owners.AdoptionChanges(live, adopted, applied, s.Claimant.Signature(), known); len(differs) > 0 {
		adoption.Differences = display.Truncate(events.Differences(differs), v1alpha1.MaxProblemMessage)
	}
	if elsewhere := s.Claimant.OwnersElsewhere(key, live, nil); len(elsewhere) > 0 {
		adoption.Manager = elsewhere[0].Manager
	}
	return adoption
}

// WatchKey is the watch that sees an object: the watch of its namespace if Vidra is limited to named ones.
func (s *Settings) WatchKey(key trigger.ObjectKey) watchregistry.Key {
	watch := watchregistry.Key{Cluster: key.Cluster, GVR: key.GVR}
	if s.Allowed.NamesNamespaces() {
		watch.Namespace = key.Namespace
	}
	return watch
}
