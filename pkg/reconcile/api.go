package reconcile

import (
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// Watches is the part of a watchregistry.Registry that reconciling needs.
type Watches interface {
	AddCluster(name string, c watchregistry.Cluster)
	RemoveCluster(name string)
	Wake(cluster string)
	WakeWatch(key watchregistry.Key)
	Ensure(owner watchregistry.Owner, want []watchregistry.Key) map[watchregistry.Key]watchregistry.Status
	Sync(owner watchregistry.Owner, want []watchregistry.Key) map[watchregistry.Key]watchregistry.Status
	Await(owner watchregistry.Owner, kinds []watchregistry.Kind)
	NoticesKinds(cluster string) bool
	Release(owner watchregistry.Owner)
	Get(key watchregistry.Key, namespace, name string) (obj any, found, synced bool)
	List(key watchregistry.Key) (objs []any, synced bool)
}

// Recorder writes Events.
type Recorder interface {
	Record(all []events.Event)
}
