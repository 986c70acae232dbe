package remote

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// unavailable is what an API server answers behind which no server serves a group, and what
// a load balancer answers that has no API server behind it.
var unavailable = faultproxy.Status(apierrors.NewServiceUnavailable("service unavailable"))

// slow has requests take up to a while, until the test ends.
func slow(t *testing.T, proxy *faultproxy.Proxy, match faultproxy.Match, while time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-ended
	})
	go func() {
		defer close(ended)
		tick := time.NewTicker(while)
		defer tick.Stop()
		for ctx.Err() == nil {
			stall := proxy.Inject(match, faultproxy.Stall())
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
			stall.Remove()
		}
	}()
}

// TestOneGroupIsDown has one group of kinds answer 503 there, as one does whose
// aggregated API server is down. That is told, tried again less and less often, and no
// outage of all the others.
func TestOneGroupIsDown(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// takes is how long an answer may take that shows whether it is an outage.
		takes time.Duration
	}{
		"near":     {"it is known at once that others are served", 0},
		"far away": {"it is not known for a moment, in each attempt", 200 * time.Millisecond},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// quiet is longer than the time between two attempts while Vidra tries often.
			const quiet = 5 * time.Second
			d, proxy := newDestination(t)
			if tt.takes > 0 {
				slow(t, proxy, faultproxy.Match{PathPrefix: "/version"}, tt.takes)
			}
			other := d.name + "-other"
			newVidraResource(t, d.url(), d.name, greeting("other", "hello"), named(other))
			awaitReady(t, other)
			down := faultproxy.Match{PathPrefix: "/apis/down.example.com"}
			proxy.Inject(down, unavailable)
			const thing = "apiVersion: down.example.com/v1\nkind: Thing\nmetadata:\n  name: thing\n"
			mark := proxy.Mark()
			v := newVidraResource(t, d.url(), d.name, manifests(greeting("page", "hello"), thing))
			there.awaitSays(t, d.name, "page", "hello")
			awaitNotReady(t, d.name, v1alpha1.ReasonApplyFailed, "down.example.com")
			suite.AwaitFor(t, 2*patience, func(c *assert.CollectT) {
				asked := proxy.Requests(mark, down)
				require.NotEmpty(c, asked)
				require.Greater(c, time.Since(asked[len(asked)-1].Time), quiet, "%d attempts: %s", len(asked), tt.reason)
			})

			setManifest(t, v.Name, manifests(greeting("page", "hi"), thing))
			there.awaitSays(t, d.name, "page", "hi")
			awaitNotReady(t, d.name, v1alpha1.ReasonApplyFailed, "down.example.com")
			there.edit(t, configMap(d.name, "other"), `{"data":{"greeting":"changed"}}`)
			there.awaitSays(t, d.name, "other", "hello")
			late := d.name + "-late"
			newVidraResource(t, d.url(), d.name, greeting("late", "hello"), named(late))
			awaitReady(t, late)
			for _, name := range []string{d.name, other, late} {
				for _, e := range eventsAbout(t, getVidraResource(t, name), v1alpha1.ReasonDestinationUnreachable) {
					require.NotContains(t, e.Note, "503", name) // a machine that is busy for seconds is another cause
				}
			}
		})
	}
}

// TestBalancerWithoutServers has what stands in front of the API server answer 503 to
// everything: that is an outage.
func TestBalancerWithoutServers(t *testing.T) {
	t.Parallel()
	const soon = 12 * time.Second
	d, proxy := newDestination(t)
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	v := awaitReady(t, d.name)
	away := proxy.Inject(faultproxy.Match{}, unavailable)
	t.Cleanup(away.Remove) // or nothing could be cleaned up
	before := time.Now()
	setManifest(t, v.Name, greeting("page", "hi"))
	awaitUnreachable(t, d.name, d.url(), "it answers 503", "finds no API server")
	took := time.Since(before)
	t.Logf("it is said after %s", took.Round(time.Millisecond))
	require.Less(t, took, soon)
	require.Empty(t, eventsAbout(t, v, v1alpha1.ReasonApplyFailed), "nothing was wrong with the object")
	away.Remove()
	there.awaitSays(t, d.name, "page", "hi")
	awaitReady(t, d.name)
	awaitEvent(t, v, "Normal", "DestinationRestored", "", "answers again")
}

// TestKindWithoutTheRightToWatchKinds installs a kind there, in a group and version that
// Vidra knows, while Vidra may not watch which kinds come and go there.
func TestKindWithoutTheRightToWatchKinds(t *testing.T) {
	t.Parallel()
	d, proxy := newDestination(t)
	for _, gr := range []schema.GroupResource{
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, {Group: "apiregistration.k8s.io", Resource: "apiservices"},
	} {
		proxy.Inject(faultproxy.Match{Resource: gr.WithVersion("v1")}, faultproxy.Status(apierrors.NewForbidden(gr, "", errors.New("no right"))))
	}
	thing := testenv.CRD(d.name)
	other := thing.DeepCopy()
	other.Name = "others." + other.Spec.Group
	names := &other.Spec.Names
	names.Plural, names.Singular, names.Kind, names.ListKind = "others", "other", "Other", "OtherList"
	require.NoError(t, there.Admin.Create(t.Context(), thing))
	document := func(kind string) string {
		return fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata:\n  name: it\nspec:\n  size: 1\n", thing.Spec.Group, kind)
	}
	mark := proxy.Mark()
	newVidraResource(t, d.url(), d.name, manifests(document("Thing"), document("Other")))
	awaitNotReady(t, d.name, v1alpha1.ReasonKindUnavailable, "Other")
	// For some seconds Vidra looks for it often, and then as often as it tries again.
	const seldom = 3 * time.Second
	await(t, func(c *assert.CollectT) {
		asked := proxy.Requests(mark, faultproxy.Match{PathPrefix: "/apis/" + thing.Spec.Group + "/v1"})
		require.NotEmpty(c, asked)
		require.Greater(c, time.Since(asked[len(asked)-1].Time), seldom)
	})
	require.NoError(t, there.Admin.Create(t.Context(), other))
	before := time.Now()
	awaitReady(t, d.name)
	t.Logf("noticed after %s", time.Since(before).Round(time.Millisecond))
}
