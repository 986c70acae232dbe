package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestAdoption has an InfrahubSync with the VidraResources and objects that the first operator left: no object is written, and a
// VidraResource whose artifact is gone is deleted.
func TestAdoption(t *testing.T) {
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	suite.Kill(t, operator)
	is := l.sync()
	// Its finalizer and reference, spec and fields: as the first operator writes them.
	for _, name := range []string{"a", "b", "c"} {
		a := l.artifact(name, "hello")
		if name != "c" {
			a.Content = "\n" + a.Content + "\n"
			l.Set(a)
		}
		object := configMap(l.ns, name)
		object.Data = map[string]string{"greeting": "hello"}
		object.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}
		object.Annotations = map[string]string{v1alpha1.OwnerAnnotation: a.ID}
		require.NoError(t, cluster.Admin.Create(t.Context(), object, client.FieldOwner("manager")))
		vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{
			Name: a.ID, Finalizers: []string{v1alpha1.Finalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(is, v1alpha1.GroupVersion.WithKind(v1alpha1.SyncKind))},
		}}
		vr.Spec.Destination.Namespace, vr.Spec.Manifest = l.ns, suite.Greeting(name, "hello")[:len(suite.Greeting(name, "hello"))-1]
		vr.Spec.Destination.ReconcileOnEvents = &is.Spec.Destination.ReconcileOnEvents
		require.NoError(t, cluster.Admin.Create(t.Context(), vr, client.FieldOwner("manager")))
		vr.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{{Kind: "ConfigMap", APIVersion: "v1", Name: name, Namespace: l.ns}}
		vr.Status.DeployState = v1alpha1.DeploySucceeded
		require.NoError(t, cluster.Admin.Status().Update(t.Context(), vr, client.FieldOwner("manager")))
	}
	generation := l.resources(t)[l.id("a")].Generation
	// The engine takes the objects over by itself, see TestOff. So the writes below are those of the InfrahubSync.
	require.NoError(t, launch(cleanup, "--infrahub=false"))
	for _, name := range []string{"a", "b", "c"} {
		cluster.AwaitReady(t, l.id(name))
	}
	suite.Kill(t, operator)
	before := cluster.Get(t, configMap(l.ns, "a"))
	mark := cluster.AuditMark(t)
	require.NoError(t, launch(cleanup))
	l.await(v1alpha1.SyncReasonSynced, "2 artifacts")
	cluster.AwaitGone(t, configMap(l.ns, "c"))
	l.request()
	written := cluster.ByOperator(t, mark).ObjectsIn(l.ns).Writes()
	require.NotEmpty(t, written, "c was deleted")
	require.Empty(t, written.Only(func(r suite.Request) bool { return r.Name != "c" }), "a and b are adopted without a write")
	vr := cluster.AwaitReady(t, l.id("a"))
	require.Equal(t, generation, vr.Generation, "the spec is the same")
	after := cluster.Get(t, before)
	require.Equal(t, before.GetUID(), after.GetUID())
	is0, _, _ := unstructured.NestedMap(before.Object, "data")
	is1, _, _ := unstructured.NestedMap(after.Object, "data")
	require.Equal(t, is0, is1)
	require.LessOrEqual(t, len(after.GetManagedFields()), 2, "the first operator's entry, and the mark of Vidra")
}

// TestOff: with --infrahub=false, the operator does not read InfrahubSyncs and sends no request to their servers. It reconciles VidraResources,
// and accepts no webhooks.
func TestOff(t *testing.T) {
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"))
	suite.Kill(t, operator)
	mark := cluster.AuditMark(t)
	require.NoError(t, launch(cleanup, "--infrahub=false"))
	l.sync()
	vr := cluster.NewVidraResource(t, l.ns, suite.Greeting("page", "hello"), suite.Named(l.ns+"-page"))
	cluster.AwaitReady(t, vr.Name)
	require.Empty(t, cluster.ByOperator(t, mark).Only(func(r suite.Request) bool { return r.Resource == "infrahubsyncs" }))
	require.Empty(t, l.Requests("/"))
	require.Empty(t, l.get(t).Status.Conditions)
	for series := range suite.Metrics(t, operator) {
		require.NotContains(t, series, "vidra_infrahub")
	}
	_, err := net.Dial("tcp", webhooks)
	require.Error(t, err)
	restartOperator(t)
	l.awaitGreeting("a", "hello")
}

// TestShards: the operator of a shard syncs the InfrahubSyncs of the shard, and no others. Their VidraResources are of the shard of their own
// labels.
func TestShards(t *testing.T) {
	const key = "sharding.fluxcd.io/key"
	suite.Kill(t, operator)
	main, err := cluster.StartOperator(cleanup, testenv.OperatorOptions{Binary: operatorBinary, Args: []string{"--watch-label-selector=!" + key}})
	require.NoError(t, err)
	one, err := cluster.StartOperator(cleanup, testenv.OperatorOptions{Binary: operatorBinary, Args: []string{"--watch-label-selector=" + key + "=one"}})
	require.NoError(t, err)
	t.Cleanup(func() {
		suite.Kill(t, main)
		suite.Kill(t, one)
		require.NoError(t, launch(cleanup))
	})
	cases := map[string]struct {
		reason          string
		sync, resources map[string]string
		syncs, applies  *testenv.Operator
	}{
		"Main":    {"no label", nil, nil, main, main},
		"Shard":   {"the label of the shard", map[string]string{key: "one"}, map[string]string{key: "one"}, one, one},
		"Crossed": {"the VidraResources are of the main shard", map[string]string{key: "one"}, nil, one, main},
		"Given":   {"the VidraResources are of the other shard", nil, map[string]string{key: "one"}, main, one},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, standin.Options{})
			l.credentials(nil)
			l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"))
			l.sync(func(is *v1alpha1.InfrahubSync) {
				is.Labels = tc.sync
				is.Spec.Template = &v1alpha1.VidraResourceTemplate{Labels: tc.resources}
			})
			l.await(v1alpha1.SyncReasonSynced)
			l.awaitGreeting("a", "hello")
			for _, o := range []*testenv.Operator{main, one} {
				want := map[bool]int{true: 1}[o == tc.syncs]
				require.Equal(t, want, suite.Metric(t, o, `vidra_infrahubsync_ready{name="`+l.ns+`"}`), tc.reason)
			}
			require.Len(t, l.Requests("/api/query"), 1)
			l.Set(l.artifact("a", "goodbye"))
			l.Remove(l.id("b"))
			l.request()
			l.awaitGreeting("a", "goodbye")
			cluster.AwaitGone(t, configMap(l.ns, "b"))
			l.Reset()
			l.request()
			l.requireRequests(0, 1, 0)
		})
	}
}

// TestRestart: an operator that starts again reads no artifact and writes no VidraResource.
func TestRestart(t *testing.T) {
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"))
	l.sync()
	l.awaitGreeting("b", "hello")
	l.awaitGreeting("a", "hello")
	l.await(v1alpha1.SyncReasonSynced)
	l.Reset()
	mark := cluster.AuditMark(t)
	restartOperator(t)
	l.request()
	l.requireContents(0)
	written := cluster.ByOperator(t, mark).Only(func(r suite.Request) bool {
		return r.Resource == "vidraresources" && (r.Verb == "patch" || r.Verb == "delete" || r.Verb == "create") && len(r.Name) >= len(l.ns) && r.Name[:len(l.ns)] == l.ns
	})
	require.Empty(t, written)
}

func (l *lab) requireContents(n int) {
	l.t.Helper()
	require.Len(l.t, append(l.Requests("/api/artifact/"), l.Requests("/api/storage/object/")...), n)
}

// TestSoak changes 200 artifacts while the operator and the server restart. In the end the objects are as the server lists them, and no
// object that was listed all the time has been deleted.
func TestSoak(t *testing.T) {
	began, artifacts := time.Now(), suite.Size(60, 200)
	rounds := suite.Size(3, 20)
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	name := func(i int) string { return fmt.Sprintf("o%d", i) }
	for i := range artifacts {
		l.Set(l.artifact(name(i), "v0"))
	}
	l.sync(func(is *v1alpha1.InfrahubSync) {
		is.Spec.Interval = &metav1.Duration{Duration: v1alpha1.MinSyncInterval}
	})
	suite.AwaitFor(t, 2*suite.Patience, func(c *assert.CollectT) {
		is := l.get(c)
		require.EqualValues(c, artifacts, is.Status.Applied)
	})
	suite.AwaitFor(t, 3*suite.Patience, func(c *assert.CollectT) { require.Len(c, l.greetings(c), artifacts) })
	uids := l.uids(t)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	want := map[string]string{}
	for i := range artifacts {
		want[name(i)] = "v0"
	}
	for round := 1; round <= rounds; round++ {
		for range artifacts / 4 {
			i := random.IntN(artifacts)
			want[name(i)] = fmt.Sprint("v", round)
			l.Set(l.artifact(name(i), fmt.Sprint("v", round)))
		}
		switch round % 3 {
		case 0: // the server is away, then empty as after a restore
			l.Instead(always("/", http.StatusServiceUnavailable, nil, ""))
			l.Revoke()
			l.request()
			l.Instead(always("/api/query", http.StatusOK, nil, `{"data":{"CoreArtifact":{"edges":[]}}}`))
			l.request()
			l.Instead(nil)
		case 1:
			l.webhook("infrahub.artifact.updated", "main")
			restartOperator(t)
		case 2:
			l.request()
		}
	}
	l.webhook("infrahub.artifact.updated", "main")
	suite.AwaitFor(t, 3*suite.Patience, func(c *assert.CollectT) { require.Equal(c, want, l.greetings(c)) })
	l.await(v1alpha1.SyncReasonSynced)
	require.Equal(t, uids, l.uids(t), "no object was deleted and created again")
	t.Logf("%d artifacts, %d rounds with %d changes each, %d queries and %d reads of artifacts in %s",
		artifacts, rounds, artifacts/4, len(l.Requests("/api/query")), len(l.Requests("/api/storage")), time.Since(began).Round(time.Second))
}

// greetings returns the greetings of the ConfigMaps of artifacts, by name.
func (l *lab) greetings(t require.TestingT) map[string]string {
	found := map[string]string{}
	for _, one := range l.objects(t) {
		greeting, _, _ := unstructured.NestedString(one.Object, "data", "greeting")
		found[one.GetName()] = greeting
	}
	return found
}

// uids returns the UIDs of the ConfigMaps of artifacts, by name.
func (l *lab) uids(t require.TestingT) map[string]string {
	found := map[string]string{}
	for _, one := range l.objects(t) {
		found[one.GetName()] = string(one.GetUID())
	}
	return found
}

func (l *lab) objects(t require.TestingT) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(configMapList)
	require.NoError(t, cluster.Admin.List(cleanup, list, client.InNamespace(l.ns), client.MatchingLabels{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}))
	return list.Items
}

var configMapList = corev1.SchemeGroupVersion.WithKind("ConfigMapList")

// webhook sends a webhook with a valid signature.
func (l *lab) webhook(event, branch string) {
	l.t.Helper()
	header, body := standin.Webhook(webhookKey, fmt.Sprintf("%s-%d", l.ns, time.Now().UnixNano()), event, branch, time.Now())
	require.Equal(l.t, http.StatusNoContent, l.post(header, body))
}

// post sends a webhook and returns the status of the answer.
func (l *lab) post(header http.Header, body []byte) int {
	l.t.Helper()
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, "http://"+webhooks+"/infrahub", bytes.NewReader(body))
	require.NoError(l.t, err)
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	require.NoError(l.t, err)
	require.NoError(l.t, response.Body.Close())
	return response.StatusCode
}

// TestWebhooks: a webhook with a valid signature requests a query at once, and no other one does.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	// A webhook is for all InfrahubSyncs of its branch: those of the other tests are of another one.
	const branch = "webhooks"
	artifact := func(greeting string) standin.Artifact {
		a := l.artifact("a", greeting)
		a.Branch = branch
		return a
	}
	l.Set(artifact("hello"))
	l.sync(func(is *v1alpha1.InfrahubSync) { is.Spec.Source.TargetBranch = branch })
	l.awaitGreeting("a", "hello")
	l.await(v1alpha1.SyncReasonSynced)
	requested := l.get(t).Annotations[v1alpha1.SyncRequestedAtAnnotation]

	const updated = "infrahub.artifact.updated"
	now := time.Now()
	sign := func(key string, at time.Time) (http.Header, []byte) {
		return standin.Webhook(key, l.ns+at.String(), updated, branch, at)
	}
	good, body := sign(webhookKey, now)
	without := func(name string) http.Header { h := good.Clone(); h.Del(name); return h }
	late, lateBody := sign(webhookKey, now.Add(-6*time.Minute))
	early, earlyBody := sign(webhookKey, now.Add(6*time.Minute))
	wrong, wrongBody := sign("another key", now)
	moved := good.Clone()
	moved.Set("webhook-timestamp", fmt.Sprint(now.Unix()+1))
	for why, one := range map[string]struct {
		header http.Header
		body   []byte
		status int
	}{
		"no signature":          {without("webhook-signature"), body, http.StatusUnauthorized},
		"no id":                 {without("webhook-id"), body, http.StatusUnauthorized},
		"no time":               {without("webhook-timestamp"), body, http.StatusUnauthorized},
		"another key":           {wrong, wrongBody, http.StatusUnauthorized},
		"another time":          {moved, body, http.StatusUnauthorized},
		"another body":          {good, append([]byte(" "), body...), http.StatusUnauthorized},
		"older than the window": {late, lateBody, http.StatusUnauthorized},
		"from the future":       {early, earlyBody, http.StatusUnauthorized},
		"too large":             {good, make([]byte, 300<<10), http.StatusRequestEntityTooLarge},
	} {
		require.Equal(t, one.status, l.post(one.header, one.body), why)
	}
	ignored, ignoredBody := standin.Webhook(webhookKey, l.ns+"-ignored", "infrahub.node.updated", branch, now)
	require.Equal(t, http.StatusNoContent, l.post(ignored, ignoredBody))
	require.Equal(t, requested, l.get(t).Annotations[v1alpha1.SyncRequestedAtAnnotation])

	elsewhere, elsewhereBody := standin.Webhook(webhookKey, l.ns+"-elsewhere", updated, "elsewhere", now)
	require.Equal(t, http.StatusNoContent, l.post(elsewhere, elsewhereBody))

	l.Set(artifact("goodbye"))
	l.Reset()
	began := time.Now()
	require.Equal(t, http.StatusNoContent, l.post(good, body))
	l.awaitGreeting("a", "goodbye")
	t.Logf("from the webhook to the live object: %s", time.Since(began))
	l.await(v1alpha1.SyncReasonSynced)

	require.Len(t, l.Requests("/api/query/"), 1, "webhooks of other events and branches request no query")

	// It is accepted once.
	again := l.get(t).Annotations[v1alpha1.SyncRequestedAtAnnotation]
	replayed := suite.Metric(t, operator, `vidra_infrahub_webhooks_total{outcome="replayed"}`)
	require.Equal(t, http.StatusNoContent, l.post(good, body))
	require.Greater(t, suite.Metric(t, operator, `vidra_infrahub_webhooks_total{outcome="replayed"}`), replayed)
	require.Equal(t, again, l.get(t).Annotations[v1alpha1.SyncRequestedAtAnnotation])
	require.Positive(t, suite.Metric(t, operator, `vidra_infrahub_webhooks_total{outcome="refused"}`))
	require.Positive(t, suite.Metric(t, operator, `vidra_infrahub_requests_total{outcome="ok",request="query"}`))
	require.Equal(t, 1, suite.Metric(t, operator, `vidra_infrahubsync_ready{name="`+l.ns+`"}`))
}
