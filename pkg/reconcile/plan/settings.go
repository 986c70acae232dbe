package plan

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// Additions is the policy for what users add to the objects of a VidraResource, with
// the field managers of users: none with Keep.
type Additions struct {
	Policy v1alpha1.AdditionsPolicy
	Tools  ownership.Tools
}

// Configuration identifies a policy, so that another one has every object applied; empty
// with Keep.
func (a Additions) Configuration() string {
	if a.Policy == v1alpha1.AdditionsKeep {
		return ""
	}
	return string(a.Policy) + ":" + strings.Join(a.Tools, ",")
}

// Settings is what holds for all objects of one VidraResource in one reconcile.
type Settings struct {
	owners.Claimant
	// UID is that of the VidraResource.
	UID types.UID
	// Adopt is the policy for objects that exist.
	Adopt v1alpha1.AdoptPolicy
	// Force reports that what cannot be changed is deleted and created again.
	Force bool
	// UnmanagedContents is what is done about unmanaged objects in what is deleted.
	UnmanagedContents v1alpha1.UnmanagedContents
	// MaxBreakGlass is how long break-glass annotations exempt an object at most.
	MaxBreakGlass time.Duration
	// GlassRoom is how many more objects may get an answer to such annotations.
	GlassRoom func() *BreakGlassRoom
	// Additions is the policy for what users add to the objects.
	Additions Additions
	// Tools are the field managers of the clients that users work with.
	Tools ownership.Tools
	// Stamped reports that the annotation ownership.EditedByAnnotation of an object can be trusted.
	Stamped bool
	// Watched reports whether events of the objects are wanted.
	Watched bool
	// Allowed is what Vidra may do at the destination. It is known when that is connected.
	Allowed cluster.Scope
}

// WatchKey is the watch that sees an object: that of its namespace where Vidra is limited to named ones.
func (s *Settings) WatchKey(key trigger.ObjectKey) watchregistry.Key {
	watch := watchregistry.Key{Cluster: key.Cluster, GVR: key.GVR}
	if s.Allowed.NamesNamespaces() {
		watch.Namespace = key.Namespace
	}
	return watch
}
