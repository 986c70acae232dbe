package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// Kinds finds how kinds are served. See cluster.Cluster.
type Kinds interface {
	Mapping(ctx context.Context, gvk schema.GroupVersionKind) (cluster.Mapping, error)
	MappingInAnyVersion(ctx context.Context, gvk schema.GroupVersionKind) (cluster.Mapping, error)
	Invalidate(group string)
}

// Destination is a cluster that objects are applied to. See cluster.Cluster.
type Destination interface {
	Kinds
	Dynamic() dynamic.Interface
	// Name is the cluster in the keys of objects and watches; empty for the local one.
	Name() string
	// As is a client that impersonates.
	As(username string) (dynamic.Interface, error)
	// Unreachable says why nothing can be done there at present; nil if it can.
	Unreachable() error
	// MaybeUnreachable reports that requests fail, and that it will be known soon whether it is
	// Unreachable.
	MaybeUnreachable() bool
}

// Watches is the part of a watchregistry.Registry that reconciling needs.
type Watches interface {
	AddCluster(name string, c watchregistry.Cluster)
	RemoveCluster(name string)
	Wake(cluster string)
	WakeWatch(key watchregistry.Key)
	Ensure(owner watchregistry.Owner, want []watchregistry.Key) map[watchregistry.Key]watchregistry.Status
	Sync(owner watchregistry.Owner, want []watchregistry.Key) map[watchregistry.Key]watchregistry.Status
	Await(owner watchregistry.Owner, kinds []watchregistry.Kind)
	Release(owner watchregistry.Owner)
	Get(key watchregistry.Key, namespace, name string) (obj any, found, synced bool)
	List(key watchregistry.Key) (objs []any, synced bool)
}

// Recorder writes Events.
type Recorder interface {
	Record(all []events.Event)
}

// watchKey is the watch that sees an object.
func watchKey(key trigger.ObjectKey) watchregistry.Key {
	return watchregistry.Key{Cluster: key.Cluster, GVR: key.GVR}
}
