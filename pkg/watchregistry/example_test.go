package watchregistry_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// A registry watches what its owners need, for as long as one of them does.
func Example() {
	registry := watchregistry.New(watchregistry.Options{
		LabelSelector: "managed-by=example",
		HandlerFor: func(_ string, gvr schema.GroupVersionResource) cache.ResourceEventHandler {
			return cache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { fmt.Println(gvr.Resource, "added or seen for the first time:", obj) },
				UpdateFunc: func(_, obj any) { fmt.Println(gvr.Resource, "changed:", obj) },
				DeleteFunc: func(obj any) { fmt.Println(gvr.Resource, "deleted:", obj) },
			}
		},
		OnWatch: func(owner watchregistry.Owner, key watchregistry.Key, status watchregistry.Status) {
			fmt.Println("tell", owner, "that the watch of", key, "is", status.State, status.Message)
		},
	})
	defer registry.Stop()
	// registry.AddCluster("production", c), where c is for example what package
	// cluster makes; here, nobody has.

	// What an owner says replaces what it said before. Nothing here waits for a
	// server: a kind that does not exist yet is Pending, and watched when it comes.
	web := watchregistry.Owner{Namespace: "team", Name: "web"}
	deployments := watchregistry.Key{Cluster: "production", GVR: schema.GroupVersionResource{
		Group: "apps", Version: "v1", Resource: "deployments",
	}}
	for key, status := range registry.Sync(web, []watchregistry.Key{deployments}) {
		fmt.Println(key, status.State, status.Message)
	}

	// What needs the objects asks the store of the watch, which costs no request.
	if _, found, synced := registry.Get(deployments, "team", "web"); synced && !found {
		fmt.Println("team/web is missing")
	}

	// The watch stops some time after its last owner has left.
	registry.Release(web)

	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a manager of controller-runtime runs the registry like this
	fmt.Println(registry.Start(ctx))
	// Output:
	// deployments.v1.apps at production Degraded cluster "production" is not known
	// <nil>
}
