package watchregistry

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// emptyCluster is a cluster whose API server serves nothing, and whose
// discovery says otherwise.
type emptyCluster struct {
	config *rest.Config
	asked  func()
}

func (c *emptyCluster) Dynamic() dynamic.Interface   { return dynamic.NewForConfigOrDie(c.config) }
func (c *emptyCluster) Metadata() metadata.Interface { return metadata.NewForConfigOrDie(c.config) }
func (c *emptyCluster) Invalidate(string)            {}

func (c *emptyCluster) ServesKind(context.Context, schema.GroupVersionKind) (bool, error) {
	return false, nil
}

func (c *emptyCluster) ServesResource(context.Context, schema.GroupVersionResource) (bool, error) {
	c.asked()
	return true, nil
}

// TestReleaseWhileDiscoveryAnswers has the last owner of a Pending watch leave
// at the moment at which its resource turns out to be served.
func TestReleaseWhileDiscoveryAnswers(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	r := New(Options{
		Linger: -1,
		HandlerFor: func(string, schema.GroupVersionResource) cache.ResourceEventHandler {
			return cache.ResourceEventHandlerFuncs{}
		},
	})
	owner := Owner{Name: "one"}
	released := make(chan struct{})
	var once sync.Once
	r.AddCluster("", &emptyCluster{
		config: &rest.Config{Host: server.URL},
		asked: func() {
			r.Release(owner)
			once.Do(func() { close(released) })
		},
	})
	r.Sync(owner, []Key{{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}})
	<-released
	r.Stop() // waits for the goroutine of the watch
	require.Empty(t, r.Watches())
}
