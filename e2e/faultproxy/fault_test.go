package faultproxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// listConfigMaps selects what the tests of a Fault inject it for.
var listConfigMaps = Match{Verb: "list", Resource: configMaps}

func TestStatus(t *testing.T) {
	resource := configMaps.GroupResource()
	tests := map[string]struct {
		reason string
		err    *apierrors.StatusError
		is     func(error) bool
	}{
		"401": {"credentials were rotated", apierrors.NewUnauthorized("rotated"), apierrors.IsUnauthorized},
		"403": {"a role was taken away", apierrors.NewForbidden(resource, "", nil), apierrors.IsForbidden},
		"404": {"a CRD was deleted", apierrors.NewNotFound(resource, ""), apierrors.IsNotFound},
		"410": {"a continue token has expired", apierrors.NewResourceExpired("old"), apierrors.IsResourceExpired},
		"429": {"the server is busy, and names no time", apierrors.NewTooManyRequests("busy", 0), apierrors.IsTooManyRequests},
		"500": {"a conversion webhook is broken", apierrors.NewInternalError(io.ErrUnexpectedEOF), apierrors.IsInternalError},
		"503": {"an aggregated server is down", apierrors.NewServiceUnavailable("down"), apierrors.IsServiceUnavailable},
	}
	p := start(t)
	c := through(t, p)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rule := p.Inject(listConfigMaps, Status(tt.err))
			_, err := c.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
			require.True(t, tt.is(err), "%s: %v", tt.reason, err)
			require.Equal(t, tt.err.Error(), err.Error(), "the message arrives as it was made")
			require.Equal(t, 1, rule.Hits())

			_, err = c.Resource(secrets).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err, "another resource is left alone")
			_, err = c.Resource(configMaps).Namespace("default").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
			require.NoError(t, err, "another verb is left alone")
			rule.Remove()
			rule.Remove()
			_, err = c.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err, "without the rule, all is well")
			require.Equal(t, 1, rule.Hits(), "what the fault did not hit does not count")
		})
	}
}

func TestRetryAfterIsHeeded(t *testing.T) {
	p := start(t)
	mark := p.Mark()
	rule := p.Inject(listConfigMaps, Status(apierrors.NewTooManyRequests("busy", 1)).Times(1))
	_, err := through(t, p).Resource(configMaps).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err, "client-go asks again, and then nothing is wrong")
	require.Equal(t, 1, rule.Hits())
	requests := p.Requests(mark, listConfigMaps)
	require.Len(t, requests, 2)
	require.GreaterOrEqual(t, requests[1].Time.Sub(requests[0].Time), 900*time.Millisecond, "after the time that it was told")
}

func TestDiscoveryFails(t *testing.T) {
	p := start(t)
	c, err := discovery.NewDiscoveryClientForConfig(p.Config())
	require.NoError(t, err)
	match := Match{Verb: Discovery, PathPrefix: "/apis/apps/v1"}
	rule := p.Inject(match, Status(apierrors.NewServiceUnavailable("down")))

	_, err = c.ServerResourcesForGroupVersion("apps/v1")
	require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
	_, err = c.ServerResourcesForGroupVersion("batch/v1")
	require.NoError(t, err, "another group is left alone")
	rule.Remove()
	resources, err := c.ServerResourcesForGroupVersion("apps/v1")
	require.NoError(t, err)
	require.NotEmpty(t, resources.APIResources)
}

// TestLate: the API server does what the request asks, and the client has no answer as long as the rule
// is there.
func TestLate(t *testing.T) {
	p, ns := start(t), namespace(t)
	c, done := through(t, p), make(chan error, 1)
	rule := p.Inject(Match{Verb: "create"}, Late())
	go func() {
		_, err := c.Resource(configMaps).Namespace(ns).Create(context.Background(), configMap(ns, "late"), metav1.CreateOptions{})
		done <- err
	}()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := direct(t).CoreV1().ConfigMaps(ns).Get(context.Background(), "late", metav1.GetOptions{})
		require.NoError(c, err)
	}, wait30, poll)
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, 1, rule.Holding()) }, wait30, poll)
	require.Empty(t, done)
	rule.Remove()
	require.NoError(t, <-done)
	require.Zero(t, rule.Holding())
}

// TestNth: only one of several requests is hit.
func TestNth(t *testing.T) {
	p := start(t)
	c := through(t, p)
	rule := p.Inject(listConfigMaps, Status(apierrors.NewInternalError(io.ErrUnexpectedEOF)).Nth(2))
	for i := range 4 {
		_, err := c.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
		require.Equal(t, i == 1, err != nil, "request %d: %v", i+1, err)
	}
	require.Equal(t, 1, rule.Hits())
}

func TestStall(t *testing.T) {
	p := start(t)
	c := through(t, p)
	rule := p.Inject(listConfigMaps, Stall())

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := c.Resource(configMaps).List(ctx, metav1.ListOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded, "there is no answer")
	require.Equal(t, 1, rule.Hits())

	done := make(chan error, 1)
	go func() {
		_, err := c.Resource(configMaps).List(context.Background(), metav1.ListOptions{})
		done <- err
	}()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Equal(t, 2, rule.Hits())
		require.Equal(t, 1, rule.Holding(), "the first client has given up")
	}, wait30, poll)
	_, err = c.Resource(secrets).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err, "what does not match passes meanwhile, on the same connection")
	require.Empty(t, done, "there is no answer as long as the rule is there")
	rule.Remove()
	select {
	case err := <-done:
		require.NoError(t, err, "the answer comes late")
	case <-time.After(wait30):
		require.Fail(t, "a request stalls without its rule")
	}
}

func TestCutAfter(t *testing.T) {
	const path = "/api/v1/configmaps"
	p := start(t)
	c, err := rest.HTTPClientFor(p.Config())
	require.NoError(t, err)
	get := func(t *testing.T) ([]byte, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Config().Host+path, http.NoBody)
		require.NoError(t, err)
		answer, err := c.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close() //nolint:errcheck // it was only read
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Equal(t, 2, answer.ProtoMajor, "HTTP/2 is spoken, as by an API server")
		return io.ReadAll(answer.Body)
	}
	whole, err := get(t)
	require.NoError(t, err)
	require.Greater(t, len(whole), 1000)

	rule := p.Inject(listConfigMaps, CutAfter(1000))
	part, err := get(t)
	require.Error(t, err, "the client sees that the answer is not whole")
	require.Len(t, part, 1000)
	_, err = through(t, p).Resource(configMaps).List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "stream error", "so does client-go")
	rule.Remove()

	p.Inject(listConfigMaps, CutAfter(1<<30))
	whole, err = get(t)
	require.NoError(t, err)
	require.True(t, json.Valid(whole), "a shorter answer passes whole")
}

func TestAnswerGetsLost(t *testing.T) {
	p, ns := start(t), namespace(t)
	p.Inject(Match{Verb: "create", Namespace: ns}, CutAfter(0))
	_, err := through(t, p).Resource(configMaps).Namespace(ns).Create(t.Context(), configMap(ns, "lost"), metav1.CreateOptions{})
	require.Error(t, err, "the client has no answer")
	_, err = direct(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "lost", metav1.GetOptions{})
	require.NoError(t, err, "the server did as it was asked")
}

func TestNewestRuleWins(t *testing.T) {
	p := start(t)
	c := through(t, p)
	list := func() error {
		_, err := c.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
		return err
	}
	older := p.Inject(Match{}, Status(apierrors.NewUnauthorized("all")))
	exempt := p.Inject(listConfigMaps, Fault{})
	newest := p.Inject(listConfigMaps, Status(apierrors.NewForbidden(configMaps.GroupResource(), "", nil)).Times(2))

	require.True(t, apierrors.IsForbidden(list()))
	require.True(t, apierrors.IsForbidden(list()))
	require.NoError(t, list(), "after two times, the next older rule exempts from the oldest")
	exempt.Remove()
	require.True(t, apierrors.IsUnauthorized(list()))
	older.Remove()
	require.NoError(t, list())
	require.Equal(t, []int{2, 1, 1}, []int{newest.Hits(), exempt.Hits(), older.Hits()})

	p.Inject(listConfigMaps, Status(apierrors.NewUnauthorized("never")).Times(0))
	require.NoError(t, list(), "a fault that hits no times hits nothing")
}

func TestDelay(t *testing.T) {
	p := start(t)
	c := through(t, p)
	const delay = 100 * time.Millisecond
	rule := p.Inject(listConfigMaps, Delay(delay))
	began := time.Now()
	_, err := c.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), delay, "the answer is that of the API server, and later")
	rule.Remove()

	rule = p.Inject(listConfigMaps, Delay(time.Hour))
	time.AfterFunc(delay, rule.Remove)
	_, err = c.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err, "the removal ends the delay")

	p.Inject(listConfigMaps, Delay(time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), delay)
	defer cancel()
	_, err = c.Resource(configMaps).List(ctx, metav1.ListOptions{})
	require.Error(t, err, "and so does the end of the client")
}
