package faultproxy

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestRequests(t *testing.T) {
	p, ns := start(t), namespace(t)
	c := through(t, p).Resource(configMaps).Namespace(ns)
	_, err := c.Create(t.Context(), configMap(ns, "one"), metav1.CreateOptions{})
	require.NoError(t, err)
	mark := p.Mark()
	require.Empty(t, p.Requests(mark, Match{}), "what was before the mark does not count")

	_, err = c.Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
	p.Inject(Match{Verb: "delete"}, Status(apierrors.NewUnauthorized("no")))
	require.Error(t, c.Delete(t.Context(), "one", metav1.DeleteOptions{}))
	w := watchNew(t, through(t, p), ns)

	var verbs []string
	for _, q := range p.Requests(mark, Match{}) {
		verbs = append(verbs, q.Verb)
		require.Equal(t, ns, q.Namespace)
		require.Equal(t, "configmaps", q.Resource)
	}
	require.Equal(t, []string{"get", "delete", "list", "watch"}, verbs, "each request counts once, in order, hit or not")
	require.Len(t, p.Requests(0, Match{Verb: "create"}), 1)
	watches := p.Requests(mark, watchConfigMaps)
	require.Len(t, watches, 1)
	require.NotEmpty(t, watches[0].Query.Get("resourceVersion"))
	w.Stop()
}

func TestDownAndUp(t *testing.T) {
	p, ns := start(t), namespace(t)
	c := through(t, p)
	list := func() error {
		_, err := c.Resource(configMaps).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		return err
	}
	w := watchNew(t, c, ns)
	stall := p.Inject(Match{Resource: secrets}, Stall())
	stalled := make(chan error, 1)
	go func() {
		_, err := c.Resource(secrets).List(context.Background(), metav1.ListOptions{})
		stalled <- err
	}()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Equal(t, 1, stall.Hits())
	}, wait30, poll)

	p.Down()
	p.Down()
	require.Zero(t, p.Streams(Match{}))
	_, ok := next(t, w)
	for ok { // client-go may report the broken connection before it ends the watch
		_, ok = next(t, w)
	}
	require.Error(t, <-stalled, "a request that is running is cut")
	require.True(t, utilnet.IsConnectionRefused(list()), "a server that is not there refuses: %v", list())

	require.NoError(t, p.Up())
	require.NoError(t, p.Up())
	require.NoError(t, list(), "the same client finds the server at the same address")
	w = watchNew(t, c, ns)
	createDirect(t, ns, "back")
	requireAdded(t, w, "back")
}

func TestDownCutsWhatIsHalfSent(t *testing.T) {
	p := start(t)
	cfg, err := rest.TLSConfigFor(p.Config())
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: cfg, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(true)
	rule := p.Inject(Match{Verb: "create"}, Stall())
	failed := make(chan error, 1)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Config().Host+"/api/v1/configmaps",
		strings.NewReader(strings.Repeat("x", 64<<20)))
	require.NoError(t, err)
	go func() {
		answer, err := transport.RoundTrip(r)
		if err == nil {
			err = answer.Body.Close()
		}
		failed <- err
	}()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Equal(t, 1, rule.Hits())
	}, wait30, poll)

	down := make(chan struct{})
	go func() {
		defer close(down)
		p.Down()
	}()
	select {
	case <-down:
	case <-time.After(wait30):
		rule.Remove() // or the end of the test hangs too
		require.Fail(t, "a client of HTTP/1.1 that is still sending holds up Down")
	}
	require.Error(t, <-failed)
}

func TestTokenIsAdded(t *testing.T) {
	path, err := env.ServiceAccountKubeconfig(t.Context(), "default", "default")
	require.NoError(t, err)
	account, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	p, err := Start(account)
	require.NoError(t, err)
	defer p.Close()
	_, err = through(t, p).Resource(secrets).List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "system:serviceaccount:default:default", "requests are those of the account that the proxy was given")
}

func TestInformerRecovers(t *testing.T) {
	p, ns := start(t), namespace(t)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(through(t, p), 0, ns, nil)
	informer := factory.ForResource(configMaps)
	store := informer.Informer().GetStore()
	stop := make(chan struct{})
	defer factory.Shutdown()
	defer close(stop)
	factory.Start(stop)
	factory.WaitForCacheSync(stop)

	has := func(name string) {
		t.Helper()
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			_, found, err := store.GetByKey(ns + "/" + name)
			require.NoError(t, err)
			require.True(t, found)
		}, wait30, poll)
	}
	p.Down()
	createDirect(t, ns, "down")
	require.NoError(t, p.Up())
	has("down")

	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Equal(t, 1, p.ErrorStreams(watchConfigMaps, expired))
	}, wait30, poll, "the informer watches again")
	createDirect(t, ns, "expired")
	has("expired")
}

func TestServerIsGone(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	p, err := Start(&rest.Config{Host: "http://" + listener.Addr().String()})
	require.NoError(t, err)
	defer p.Close()
	_, err = through(t, p).Resource(configMaps).List(t.Context(), metav1.ListOptions{})
	require.Error(t, err)
	var status apierrors.APIStatus
	require.NotErrorAs(t, err, &status, "there is no answer of a gateway, which an API server does not give")
}

func TestStartRefuses(t *testing.T) {
	_, err := Start(&rest.Config{Host: "://"})
	require.ErrorContains(t, err, "starting a proxy to ://")
}

func TestClose(t *testing.T) {
	p, err := Start(env.Config)
	require.NoError(t, err)
	defer p.Close()
	ns := namespace(t)
	c := through(t, p)
	watchNew(t, c, ns)
	stall := p.Inject(Match{Resource: secrets}, Stall())
	stalled := make(chan error, 1)
	go func() {
		_, err := c.Resource(secrets).List(context.Background(), metav1.ListOptions{})
		stalled <- err
	}()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Equal(t, 1, stall.Hits())
		require.NotEmpty(t, ours())
	}, wait30, poll)

	p.Close()
	p.Close()
	require.Error(t, <-stalled)
	require.ErrorIs(t, p.Up(), errClosed)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Empty(t, ours())
	}, wait30, poll, "no goroutine of the proxy is left")
}

// ours returns the goroutines that run for a proxy: its own, those of HTTP
// servers, of which there are no others here, and those that read and write
// HTTP/1.1 to the API server, which the other clients do not speak.
func ours() []string {
	of := regexp.MustCompile(`faultproxy\.\(\*|http\.\(\*conn\)\.|http\.\(\*http2serverConn\)|http\.\(\*persistConn\)|http2\.\(\*serverConn\)`)
	buf := make([]byte, 1<<22)
	var found []string
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if of.MatchString(g) {
			found = append(found, g)
		}
	}
	return found
}

func TestConcurrentUse(t *testing.T) {
	const clients, each = 4, 10
	p, ns := start(t), namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait30)
	defer cancel()
	mark := p.Mark()
	var group errgroup.Group
	for range clients {
		c := through(t, p).Resource(configMaps).Namespace(ns)
		group.Go(func() error {
			for range each {
				if _, err := c.List(ctx, metav1.ListOptions{}); err != nil {
					return err
				}
				if w, err := c.Watch(ctx, metav1.ListOptions{}); err == nil {
					w.Stop()
				}
			}
			return nil
		})
		group.Go(func() error {
			for range each {
				rule := p.Inject(watchConfigMaps, Status(apierrors.NewUnauthorized("no")).Times(1))
				p.CutStreams(Match{})
				p.CloseStreams(Match{})
				p.Requests(mark, Match{})
				rule.Hits()
				rule.Remove()
			}
			return nil
		})
	}
	require.NoError(t, group.Wait(), "no fault hits a LIST")
	require.NoError(t, ctx.Err())
	require.Len(t, p.Requests(mark, listConfigMaps), clients*each)
	require.Len(t, p.Requests(mark, watchConfigMaps), clients*each)
}

func TestOtherRequestsPassUnchanged(t *testing.T) {
	p, ns := start(t), namespace(t)
	c := through(t, p).Resource(configMaps).Namespace(ns)
	big := configMap(ns, "big")
	data := strings.Repeat("x", 900<<10)
	big.Object["data"] = map[string]any{"key": data}
	_, err := c.Apply(t.Context(), "big", big, metav1.ApplyOptions{FieldManager: "test"})
	require.NoError(t, err)
	got, err := direct(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "big", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, data, got.Data["key"])
	require.Equal(t, metav1.ManagedFieldsOperationApply, got.ManagedFields[0].Operation)

	_, err = c.Get(t.Context(), "missing", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "the server's own errors pass: %v", err)
	plain, err := rest.HTTPClientFor(p.Config())
	require.NoError(t, err)
	answer, err := plain.Get(p.Config().Host + "/readyz")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Len(t, p.Requests(0, Match{PathPrefix: "/readyz"}), 1)

	w := watchNew(t, through(t, p), ns)
	require.NoError(t, c.Delete(t.Context(), "big", metav1.DeleteOptions{}))
	event, ok := next(t, w)
	require.True(t, ok)
	require.Equal(t, watch.Deleted, event.Type)
	deleted, ok := event.Object.(*unstructured.Unstructured)
	require.True(t, ok)
	require.Equal(t, map[string]any{"key": data}, deleted.Object["data"], "an event of a megabyte passes whole")
}
