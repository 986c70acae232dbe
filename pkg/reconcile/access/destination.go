package access

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
)

// Kinds finds how kinds are served. See cluster.Cluster.
type Kinds interface {
	Mapping(ctx context.Context, gvk schema.GroupVersionKind) (cluster.Mapping, error)
	MappingInAnyVersion(ctx context.Context, gvk schema.GroupVersionKind) (cluster.Mapping, error)
	Invalidate(group string)
	// Aggregated reports whether an extension API server serves a group and version.
	Aggregated(ctx context.Context, gv schema.GroupVersion) (bool, error)
	// DefinitionOf names the definition of a kind, served or unserved, or empty.
	DefinitionOf(ctx context.Context, kind schema.GroupKind) (string, error)
}

// Destination is a cluster that objects are applied to. See cluster.Cluster.
type Destination interface {
	Kinds
	Dynamic() dynamic.Interface
	// Name is the cluster in the keys of objects and watches; empty for the local one.
	Name() string
	// Kubeconfig returns the digest of the kubeconfig that is used at present, and the Secret with it; empty for the local cluster, and while every
	// Secret lacks one.
	Kubeconfig() (digest, secret string)
	// Metadata watches the metadata of objects.
	Metadata() metadata.Interface
	// As is a client that impersonates.
	As(username string) (dynamic.Interface, error)
	// Unreachable is the fault that prevents all work there at present, or nil.
	Unreachable() error
	// VisitNamespace calls visit with each object in a namespace, and VisitKind with each object of a kind.
	VisitNamespace(ctx context.Context, namespace string, visit func(cluster.Content)) error
	VisitKind(ctx context.Context, gvr schema.GroupVersionResource, kind string, visit func(cluster.Content)) error
	// MaybeUnreachable reports that requests fail, and that it will be known soon whether it is
	// Unreachable.
	MaybeUnreachable() bool
}

// IsLocal reports whether a destination is the cluster that Vidra runs in.
func IsLocal(server string) bool { return server == "" || server == v1alpha1.LocalServer }

// Usable reports whether requests to a cluster are answered, as far as is known.
func Usable(d Destination) bool { return d.Unreachable() == nil && !d.MaybeUnreachable() }
