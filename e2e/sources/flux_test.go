package sources

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	fluxkustomize "github.com/fluxcd/pkg/apis/kustomize"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

var bg = context.Background()

type assertT = assert.CollectT

const mergePatchType = types.MergePatchType

// patience is the time limit of a step.
const patience = 60 * time.Second

// greeting returns the value in a ConfigMap; empty if it does not exist.
func greeting(t require.TestingT, namespace, name string) string {
	cm := &corev1.ConfigMap{}
	err := admin.Get(bg, client.ObjectKey{Namespace: namespace, Name: name}, cm)
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	return cm.Data["greeting"]
}

// awaitGreeting waits for the value in a ConfigMap.
func awaitGreeting(t *testing.T, namespace, name, want string) {
	t.Helper()
	suite.AwaitFor(t, patience, func(c *assertT) { require.Equal(c, want, greeting(c, namespace, name)) })
}

// edit changes the value in a ConfigMap.
func edit(t *testing.T, namespace, name string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.NoError(t, cluster.MergePatch(cm, `{"data":{"greeting":"edited"}}`))
}

// TestFluxKinds: each kind is watched once it is served, a revision is applied and is in the status, and the next one removes what it does not
// have. A kind that goes changes nothing, and edits are reverted meanwhile.
func TestFluxKinds(t *testing.T) {
	p := newProducer(t)
	for kind := range testenv.FluxPlurals {
		t.Run(kind, func(t *testing.T) {
			require.NoError(t, client.IgnoreNotFound(admin.Delete(t.Context(), testenv.FluxCRD(kind)))) // another test may have created it
			cluster.AwaitGoneFor(t, patience, testenv.FluxCRD(kind))
			ns := cluster.NewNamespace(t)
			cluster.NewVidraResource(t, ns, "", from(kind, "app", "deploy"))
			cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, kind+" "+ns+"/app", "is not served here")
			define(t, kind)
			cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, kind+" "+ns+"/app", "does not exist")
			source := newSource(t, kind, ns, "app")
			cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, kind+" "+ns+"/app", "has no artifact yet")
			p.publish(t, source, "main@sha1:1", map[string]string{"deploy/a.yaml": suite.Greeting("one", "hello"), "deploy/b/c.yaml": suite.Greeting("two", "hello"), "README.md": "x"})
			v := cluster.AwaitReadyFor(t, patience, ns)
			require.Len(t, v.Status.ManagedResources, 2)
			require.Len(t, v.Status.Source, 1)
			got := v.Status.Source[0]
			require.Equal(t, v1alpha1.SourceStatus{Kind: kind, Namespace: ns, Name: "app", Path: "deploy", Revision: "main@sha1:1", Digest: got.Digest}, got)
			require.True(t, strings.HasPrefix(got.Digest, "sha256:"))

			edit(t, ns, "one")
			awaitGreeting(t, ns, "one", "hello")
			event := cluster.AwaitEvent(t, v, corev1.EventTypeNormal, events.ReasonDriftCorrected, "", "one")
			require.Contains(t, event.Note, kind+" "+ns+"/app, revision main@sha1:1, file deploy/a.yaml (spec.manifestFrom[0]), document 1, line 1", "the Event names the place of the object")

			began := time.Now()
			p.publish(t, source, "main@sha1:2", map[string]string{"deploy/a.yaml": suite.Greeting("one", "second")})
			awaitGreeting(t, ns, "one", "second")
			t.Logf("from the status of the source to the object: %s", time.Since(began).Round(time.Millisecond))
			suite.AwaitFor(t, patience, func(c *assertT) { require.Empty(c, greeting(c, ns, "two")) })
			suite.AwaitFor(t, patience, func(c *assertT) {
				require.Equal(c, "main@sha1:2", cluster.GetVidraResource(c, ns).Status.Source[0].Revision)
			})
			require.NoError(t, admin.Delete(t.Context(), testenv.FluxCRD(kind)))
			cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, kind, "is not served here")
			edit(t, ns, "one")
			awaitGreeting(t, ns, "one", "second")
			define(t, kind)
			source = newSource(t, kind, ns, "app")
			p.publish(t, source, "main@sha1:3", map[string]string{"deploy/a.yaml": suite.Greeting("one", "third")})
			awaitGreeting(t, ns, "one", "third")
			cluster.AwaitReadyFor(t, patience, ns)
		})
	}
}

// TestFluxBroken: an artifact that cannot be fetched, verified or built changes nothing, and is a condition with revision, file and line. Edits are
// reverted to the last good revision, also after a crash of the operator.
func TestFluxBroken(t *testing.T) {
	define(t, "GitRepository")
	p := newProducer(t)
	ns := cluster.NewNamespace(t)
	source := newSource(t, "GitRepository", ns, "app")
	good := map[string]string{"a.yaml": suite.Greeting("one", "hello"), "b.yaml": suite.Greeting("two", "hello")}
	p.publish(t, source, "v1", good)
	cluster.NewVidraResource(t, ns, "", from("GitRepository", "app", ""))
	cluster.AwaitReadyFor(t, patience, ns)
	unchanged := func(t *testing.T) {
		t.Helper()
		for _, name := range []string{"one", "two"} {
			edit(t, ns, name)
			awaitGreeting(t, ns, name, "hello")
		}
		require.Len(t, cluster.GetVidraResource(t, ns).Status.ManagedResources, 2)
		require.Equal(t, "v1", cluster.GetVidraResource(t, ns).Status.Source[0].Revision)
	}
	encrypted := suite.Greeting("one", "ENC[AES256_GCM,data:x]") + "sops:\n  mac: ENC[AES256_GCM,data:x]\n  version: 3.9.0\n"
	for i, tt := range []struct {
		name, reason string
		files        map[string]string
		change       func(map[string]any)
		want         []string
	}{
		{"syntax", v1alpha1.ReasonManifestInvalid, map[string]string{"a.yaml": suite.Greeting("one", "new"), "b.yaml": "kind: ConfigMap\nmetadata: [\n"}, nil, []string{"file b.yaml", "line "}},
		{"no object", v1alpha1.ReasonManifestInvalid, map[string]string{"a.yaml": suite.Greeting("one", "new"), "b.yaml": "\n\nreplicas: 2\n"}, nil, []string{"file b.yaml", "line "}},
		{"build", v1alpha1.ReasonManifestInvalid, map[string]string{"kustomization.yaml": "resources: [none.yaml]\n"}, nil, []string{"file kustomization.yaml", "none.yaml"}},
		{"digest", v1alpha1.ReasonSourceUnavailable, map[string]string{"a.yaml": suite.Greeting("one", "new")}, func(a map[string]any) { a["digest"] = "sha256:" + strings.Repeat("0", 64) }, []string{"does not have the digest"}},
		{"size", v1alpha1.ReasonSourceUnavailable, map[string]string{"a.yaml": suite.Greeting("one", "new")}, func(a map[string]any) { a["size"] = 10 }, []string{"more than the 10 bytes"}},
		{"gone", v1alpha1.ReasonSourceUnavailable, map[string]string{"a.yaml": suite.Greeting("one", "new")}, func(a map[string]any) { a["url"] = p.url + "/none" }, []string{"the server answers 404"}},
		{"forged", v1alpha1.ReasonSourceUnavailable, map[string]string{"a.yaml": suite.Greeting("one", "new")}, func(a map[string]any) { a["url"] = "http://192.0.2.1/x" }, []string{"192.0.2.1", "--artifact-hosts"}},
		{"encrypted", v1alpha1.ReasonManifestInvalid, map[string]string{"a.yaml": encrypted}, nil, []string{"SOPS", "file a.yaml", "line 1"}},
		{"empty", v1alpha1.ReasonManifestInvalid, map[string]string{"README.md": "x"}, nil, []string{"no YAML files"}},
	} {
		change := tt.change
		if change == nil {
			change = func(map[string]any) {}
		}
		revision := fmt.Sprint("broken", i)
		p.publish(t, source, revision, tt.files, change)
		cluster.AwaitNotReady(t, ns, tt.reason, append(tt.want, "GitRepository "+ns+"/app", revision)...)
		unchanged(t)
		if i%4 == 0 { // a crash
			restart(t, func() { edit(t, ns, "one") })
			unchanged(t)
			cluster.AwaitNotReady(t, ns, tt.reason, append(tt.want, revision)...)
		}
	}
	// The server is away.
	p.setBroken(http.StatusServiceUnavailable)
	p.publish(t, source, "v2", map[string]string{"a.yaml": suite.Greeting("one", "second")})
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "v2", "the server answers 503")
	unchanged(t)
	p.setBroken(0)
	awaitGreeting(t, ns, "one", "second")
	suite.AwaitFor(t, patience, func(c *assertT) { require.Empty(c, greeting(c, ns, "two"), "what left the manifest is removed") })
	cluster.AwaitReadyFor(t, patience, ns)
}

// TestFluxHold: commits wait while spec.revision.hold is true, and edits are reverted to the applied one, also after a restart and while the
// artifact is gone. A commit without a change of the manifest is no revision, and a rollback needs no artifact.
func TestFluxHold(t *testing.T) {
	define(t, "GitRepository")
	p := newProducer(t)
	ns := cluster.NewNamespace(t)
	source := newSource(t, "GitRepository", ns, "app")
	publish := func(revision, text string) {
		p.publish(t, source, revision, map[string]string{"a.yaml": suite.Greeting("one", text), "README.md": revision})
	}
	applied := func(number int64) {
		t.Helper()
		suite.AwaitFor(t, patience, func(c *assertT) {
			vr := &v1alpha1.VidraResource{}
			require.NoError(c, admin.Get(context.Background(), client.ObjectKey{Name: ns}, vr))
			require.NotNil(c, vr.Status.Revision)
			require.Equal(c, number, vr.Status.Revision.Applied)
		})
	}
	policy := func(text string) {
		t.Helper()
		require.NoError(t, cluster.MergePatch(cluster.GetVidraResource(t, ns), "%s", `{"spec":{"revision":`+text+`}}`))
	}
	publish("v1", "first")
	cluster.NewVidraResource(t, ns, "", from("GitRepository", "app", ""))
	applied(1)
	publish("v2", "second")
	awaitGreeting(t, ns, "one", "second")
	applied(2)
	policy(`{"hold":true}`)
	cluster.AwaitReadyFor(t, patience, ns)
	publish("v3", "third")
	waits := func() {
		t.Helper()
		cluster.AwaitNotReady(t, ns, v1alpha1.ReasonRevisionHeld, "GitRepository "+ns+"/app, revision v3")
		edit(t, ns, "one")
		awaitGreeting(t, ns, "one", "second")
		vr := cluster.GetVidraResource(t, ns)
		require.Equal(t, "GitRepository "+ns+"/app, revision v3", vr.Status.Revision.Waiting.Source)
		require.Contains(t, vr.Status.Revision.Kept[0].Source, "revision v2")
	}
	waits()
	restart(t, func() { edit(t, ns, "one") })
	awaitGreeting(t, ns, "one", "second")
	waits()

	p.setBroken(http.StatusServiceUnavailable)
	publish("v4", "fourth")
	edit(t, ns, "one")
	awaitGreeting(t, ns, "one", "second")
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonRevisionHeld, "the new revision of the manifest cannot be read: ")
	policy(`{"hold":true,"to":1}`)
	applied(1)
	awaitGreeting(t, ns, "one", "first")
	restart(t, func() { edit(t, ns, "one") })
	awaitGreeting(t, ns, "one", "first")
	p.setBroken(0)
	policy(`null`)
	awaitGreeting(t, ns, "one", "fourth")
	applied(3)
	publish("v5", "fourth")
	suite.AwaitFor(t, patience, func(c *assertT) { require.Equal(c, "v5", cluster.GetVidraResource(t, ns).Status.Source[0].Revision) })
	require.Equal(t, int64(3), cluster.GetVidraResource(t, ns).Status.Revision.Applied)
	require.Len(t, cluster.GetVidraResource(t, ns).Status.Revision.Kept, 3)
}

// TestFluxHoldWhileUnreadable: a hold that begins while the artifact cannot be fetched is the reason that the new revision waits, and remains it
// while edits are reverted, also after a restart. Its end applies the revision.
func TestFluxHoldWhileUnreadable(t *testing.T) {
	define(t, "GitRepository")
	p := newProducer(t)
	ns := cluster.NewNamespace(t)
	source := newSource(t, "GitRepository", ns, "app")
	p.publish(t, source, "v1", map[string]string{"a.yaml": suite.Greeting("one", "first")})
	cluster.NewVidraResource(t, ns, "", from("GitRepository", "app", ""))
	cluster.AwaitReadyFor(t, patience, ns)
	p.setBroken(http.StatusServiceUnavailable)
	p.publish(t, source, "v2", map[string]string{"a.yaml": suite.Greeting("one", "second")})
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "v2", "the server answers 503")
	require.NoError(t, cluster.MergePatch(cluster.GetVidraResource(t, ns), `{"spec":{"revision":{"hold":true}}}`))
	held := func(stage string) {
		t.Helper()
		ready := func(t require.TestingT) metav1.Condition {
			return suite.Condition(t, cluster.GetVidraResource(t, ns), v1alpha1.ConditionReady)
		}
		suite.AwaitFor(t, patience, func(c *assertT) {
			require.Equal(c, v1alpha1.ReasonRevisionHeld, ready(c).Reason)
			require.Contains(c, ready(c).Message, "the new revision of the manifest cannot be read: ")
			require.Contains(c, ready(c).Message, "the server answers 503")
		})
		edit(t, ns, "one")
		awaitGreeting(t, ns, "one", "first")
		require.Never(t, func() bool { return ready(t).Reason != v1alpha1.ReasonRevisionHeld }, time.Second, 20*time.Millisecond, "%s: the edit changes nothing about the revision", stage)
	}
	held("at first")
	restart(t, func() { edit(t, ns, "one") })
	awaitGreeting(t, ns, "one", "first")
	held("after a restart")
	p.setBroken(0)
	require.NoError(t, cluster.MergePatch(cluster.GetVidraResource(t, ns), `{"spec":{"revision":null}}`))
	awaitGreeting(t, ns, "one", "second")
	cluster.AwaitReadyFor(t, patience, ns)
}

// TestFluxKustomize: a kustomization is built with the settings of spec.kustomize, and variables of ConfigMaps and Secrets are substituted again
// when they change. The values of Secrets are withheld.
func TestFluxKustomize(t *testing.T) {
	define(t, "OCIRepository")
	p := newProducer(t)
	ns := cluster.NewNamespace(t)
	source := newSource(t, "OCIRepository", ns, "app")
	p.publish(t, source, "latest@sha256:1", map[string]string{
		"base/kustomization.yaml": "resources: [one.yaml, two.yaml]\n", "base/one.yaml": suite.Greeting("one", "${who}"), "base/two.yaml": suite.Greeting("two", "${password}"),
		"prod/kustomization.yaml": "resources: [../base]\n",
	})
	vars := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vars"}, Data: map[string]string{"who": "world"}}
	hidden := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hidden"}, StringData: map[string]string{"password": "hunter2"}}
	require.NoError(t, admin.Create(t.Context(), vars))
	cluster.NewVidraResource(t, ns, "", from("OCIRepository", "app", "./prod", func(v *v1alpha1.VidraResource) {
		v.Spec.Kustomize = &v1alpha1.Kustomize{
			NamePrefix: "p-", CommonMetadata: &v1alpha1.CommonMetadata{Labels: map[string]string{"team": "shop"}},
			Patches:        []fluxkustomize.Patch{{Patch: "- {op: add, path: /data/more, value: x}", Target: &fluxkustomize.Selector{Kind: "ConfigMap", Name: "one"}}},
			SubstituteFrom: []v1alpha1.SubstituteReference{{Kind: "ConfigMap", Name: "vars"}, {Kind: "Secret", Name: "hidden"}, {Kind: "Secret", Name: "none", Optional: true}},
		}
	}))
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "Secret "+ns+"/hidden (spec.kustomize.substituteFrom[1]) does not exist")
	require.NoError(t, admin.Create(t.Context(), hidden))
	v := cluster.AwaitReadyFor(t, patience, ns)
	awaitGreeting(t, ns, "p-one", "world")
	awaitGreeting(t, ns, "p-two", "hunter2")
	one := &corev1.ConfigMap{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "p-one"}, one))
	require.Equal(t, "shop", one.Labels["team"])
	require.Equal(t, "x", one.Data["more"])
	edit(t, ns, "p-two")
	awaitGreeting(t, ns, "p-two", "hunter2")
	event := cluster.AwaitEvent(t, v, corev1.EventTypeNormal, events.ReasonDriftCorrected, "", "p-two")
	require.NotContains(t, event.Note, "hunter2")
	require.Contains(t, event.Note, "file base/two.yaml (spec.manifestFrom[0])")
	require.NoError(t, cluster.MergePatch(vars, `{"data":{"who":"everyone"}}`))
	awaitGreeting(t, ns, "p-one", "everyone")
	require.NotContains(t, fmt.Sprint(cluster.GetVidraResource(t, ns)), "hunter2")
}

// TestFluxAccount: the account needs get on the source, and a source of another namespace is refused.
func TestFluxAccount(t *testing.T) {
	define(t, "GitRepository")
	p := newProducer(t)
	ns, other := cluster.NewNamespace(t), cluster.NewNamespace(t)
	for _, in := range []string{ns, other} {
		p.publish(t, newSource(t, "GitRepository", in, "app"), "v1", map[string]string{"a.yaml": suite.Greeting("one", "hello")})
	}
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "app"}}))
	cluster.GrantRule(t, ns, "app", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}})
	cluster.NewVidraResource(t, ns, "", from("GitRepository", "app", "", func(v *v1alpha1.VidraResource) { v.Spec.ServiceAccountName = "app" }))
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "forbidden", "gitrepositories")
	cluster.GrantRule(t, ns, "app", rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"gitrepositories"}, ResourceNames: []string{"app"}, Verbs: []string{"get"}})
	cluster.AwaitReadyFor(t, patience, ns)

	// Another account, which may not read the source, gets nothing of what was read.
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "other"}}))
	cluster.GrantRule(t, ns, "other", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}})
	v := cluster.GetVidraResource(t, ns)
	for _, hold := range []bool{false, true} {
		require.NoError(t, cluster.MergePatch(v, `{"spec":{"serviceAccountName":"other","revision":{"hold":%t}}}`, hold))
		cluster.AwaitNotReady(t, ns, v1alpha1.ReasonSourceUnavailable, "forbidden", "gitrepositories")
		require.NoError(t, admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"}}))
		require.Never(t, func() bool { return greeting(t, ns, "one") != "" }, settled, suite.Poll)
		require.NoError(t, cluster.MergePatch(v, `{"spec":{"serviceAccountName":"app"}}`))
		cluster.AwaitReadyFor(t, patience, ns)
		awaitGreeting(t, ns, "one", "hello") // the loop of objects creates it again
	}
	require.NoError(t, cluster.MergePatch(v, `{"spec":{"revision":null}}`))

	v = cluster.GetVidraResource(t, ns)
	require.NoError(t, cluster.MergePatch(v, `{"spec":{"serviceAccountName":null,"manifestFrom":[{"kind":"GitRepository","name":"app","namespace":%q}]}}`, other))
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "GitRepository "+other+"/app", "--allow-cross-namespace-sources")
	restart(t, func() {}, "--allow-cross-namespace-sources")
	cluster.AwaitReadyFor(t, patience, ns)
	restart(t, func() {})
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "--allow-cross-namespace-sources")
}

// TestFluxLarge: an artifact may have 3 MB of objects, which no object of the API server could hold, and its last good revision survives a crash.
func TestFluxLarge(t *testing.T) {
	define(t, "Bucket")
	p := newProducer(t)
	ns := cluster.NewNamespace(t)
	source := newSource(t, "Bucket", ns, "app")
	files := map[string]string{}
	for i := range 30 {
		files[fmt.Sprintf("f%02d.yaml", i)] = suite.Greeting(fmt.Sprintf("large-%d", i), "hello") + "  padding: " + strings.Repeat("x", 100_000) + "\n"
	}
	p.publish(t, source, "v1", files)
	cluster.NewVidraResource(t, ns, "", from("Bucket", "app", ""))
	cluster.AwaitReadyFor(t, 3*patience, ns)
	p.publish(t, source, "v2", map[string]string{"a.yaml": "a: ["})
	cluster.AwaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "v2")
	restart(t, func() { edit(t, ns, "large-7") })
	awaitGreeting(t, ns, "large-7", "hello")
}

// TestFluxTenants: artifacts of one namespace whose server never ends its answers, and kustomizations that never end, leave workers to another one.
func TestFluxTenants(t *testing.T) {
	define(t, "GitRepository")
	p := newProducer(t)
	slow, good := cluster.NewNamespace(t), cluster.NewNamespace(t)
	source := newSource(t, "GitRepository", good, "app")
	cluster.NewVidraResource(t, good, "", from("GitRepository", "app", "")) // the first, so that it is deleted last: a removal waits for unread manifests
	p.mu.Lock()
	p.slow = "/" + slow + "/"
	p.mu.Unlock()
	p.publish(t, newSource(t, "GitRepository", slow, "app"), "v1", map[string]string{"a.yaml": suite.Greeting("one", "hello")})
	for i := range 6 {
		cluster.NewVidraResource(t, slow, "", suite.Named(fmt.Sprint(slow, "-", i)), from("GitRepository", "app", ""))
	}
	suite.AwaitFor(t, patience, func(c *assertT) {
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Equal(c, 1, p.waiting)
	})
	for i := range 3 {
		p.publish(t, source, fmt.Sprint("v", i), map[string]string{"a.yaml": suite.Greeting("one", fmt.Sprint("v", i))})
		awaitGreeting(t, good, "one", fmt.Sprint("v", i))
	}
	p.mu.Lock()
	require.Equal(t, 1, p.most, "a namespace has half of the workers for heavy reconciles: one of two")
	p.mu.Unlock()
	if !suite.Long() { // it takes half a minute of processor time
		return
	}
	var objects, patches strings.Builder
	for i := range 500 {
		objects.WriteString(suite.Greeting(fmt.Sprint("c", i), "x") + "---\n")
		patches.WriteString("- {target: {kind: ConfigMap}, patch: '[{\"op\": \"add\", \"path\": \"/data/x\", \"value\": \"1\"}]'}\n")
	}
	p.publish(t, source, "bomb", map[string]string{"kustomization.yaml": "resources: [all.yaml]\npatches:\n" + patches.String(), "all.yaml": objects.String()})
	cluster.AwaitNotReady(t, good, v1alpha1.ReasonManifestInvalid, "bomb", "processor time")
	edit(t, good, "one")
	awaitGreeting(t, good, "one", "v2")
}
