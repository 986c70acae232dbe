package watchregistry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

var deployments = watchregistry.Key{Cluster: "production", GVR: schema.GroupVersionResource{
	Group: "apps", Version: "v1", Resource: "deployments",
}}

// A registry watches what its owners need, from the moment at which the first one needs it.
func Example() {
	happened, states := make(chan string, 10), make(chan watchregistry.State, 10)
	registry := watchregistry.New(watchregistry.Options{
		HandlerFor: func(_ string, gvr schema.GroupVersionResource) cache.ResourceEventHandler {
			return cache.ResourceEventHandlerFuncs{
				AddFunc:    func(any) { happened <- gvr.Resource + ": one was added" },
				UpdateFunc: func(_, _ any) { happened <- gvr.Resource + ": one was changed" },
				DeleteFunc: func(any) { happened <- gvr.Resource + ": one was deleted" },
			}
		},
		OnWatch: func(_ watchregistry.Owner, _ watchregistry.Key, status watchregistry.Status) { states <- status.State },
	})
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- registry.Start(ctx) }() // as a manager of controller-runtime does

	// No call waits for a server. A watch that cannot start has a status that says why.
	owner, needed := watchregistry.Owner{Namespace: "team", Name: "shop"}, []watchregistry.Key{deployments}
	fmt.Println(registry.Sync(owner, needed)[deployments].Message)

	cluster := newProduction()
	defer cluster.server.Close()
	registry.AddCluster("production", cluster)

	// The watches that an owner needs replace those that it needed before.
	registry.Sync(owner, needed)
	for state := range states {
		if state == watchregistry.Synced {
			break
		}
	}
	fmt.Println(<-happened)

	// Reading from the store of a watch costs no request.
	_, found, synced := registry.Get(deployments, "team", "web")
	fmt.Println("team/web is found:", found && synced)

	cluster.events <- "DELETED"
	fmt.Println(<-happened)

	// The watch stops some time after its last owner released it, or with the registry.
	registry.Release(owner)
	cancel()
	fmt.Println("stopped:", <-stopped)
	// Output:
	// cluster "production" is not known
	// deployments: one was added
	// team/web is found: true
	// deployments: one was deleted
	// stopped: <nil>
}

// production is a cluster for the examples. In an operator, package cluster makes one from
// a rest.Config.
type production struct {
	server *httptest.Server
	config *rest.Config
	events chan string
}

// newProduction is a cluster whose API server has one Deployment. The types that are sent to
// its events are those of the next events of the watch.
func newProduction() *production {
	p := &production{events: make(chan string)}
	p.server = httptest.NewServer(p)
	p.config = &rest.Config{Host: p.server.URL, Transport: &http.Transport{DisableKeepAlives: true}}
	return p
}

// ServeHTTP answers a watch of Deployments as the API server does: with the objects that
// exist, a bookmark at their end, and then the changes.
func (p *production) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/apis/apps/v1/deployments" {
		http.NotFound(w, r)
		return
	}
	const event = `{"type": %q, "object": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": %s}}`
	send := func(kind, metadata string) {
		_, _ = fmt.Fprintf(w, event+"\n", kind, metadata)
		w.(http.Flusher).Flush()
	}
	w.Header().Set("Content-Type", "application/json")
	send("ADDED", web)
	send("BOOKMARK", `{"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}`)
	for {
		select {
		case kind := <-p.events:
			send(kind, web)
		case <-r.Context().Done():
			return
		}
	}
}

// web is the metadata of the Deployment.
const web = `{"namespace": "team", "name": "web", "resourceVersion": "1"}`

func (p *production) Dynamic() dynamic.Interface   { return dynamic.NewForConfigOrDie(p.config) }
func (p *production) Metadata() metadata.Interface { return metadata.NewForConfigOrDie(p.config) }
func (p *production) Invalidate(string)            {}

func (p *production) ServesKind(context.Context, schema.GroupVersionKind) (bool, error) {
	return true, nil
}

func (p *production) ServesResource(context.Context, schema.GroupVersionResource) (bool, error) {
	return true, nil
}
