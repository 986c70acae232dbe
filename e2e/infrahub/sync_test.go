package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestSync follows artifacts from the server to live objects: created, changed, unchanged and removed.
func TestSync(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"), l.artifact("c", "hello"))
	l.sync()
	is := l.await(v1alpha1.SyncReasonSynced, "3 artifacts")
	require.Equal(t, v1alpha1.SyncSucceeded, is.Status.SyncState)
	require.Len(t, is.Status.Checksums, 3)
	require.Empty(t, is.Status.LastError)
	require.WithinDuration(t, time.Now(), is.Status.LastSyncTime.Time, suite.Patience)
	l.requireResources(t, "a", "b", "c")
	vr := l.resources(t)[l.id("a")]
	require.Contains(t, vr.Finalizers, v1alpha1.Finalizer)
	require.Equal(t, v1alpha1.Destination{Namespace: l.ns, ReconcileOnEvents: vr.Spec.Destination.ReconcileOnEvents}, vr.Spec.Destination)
	require.True(t, vr.WatchesEvents())
	live := l.awaitGreeting("a", "hello")
	l.requireRequests(1, 1, 3)
	cluster.AwaitEvent(t, is, corev1.EventTypeNormal, v1alpha1.SyncReasonSynced, "Write", "created 3 VidraResources", l.id("a"))

	// The engine does the rest.
	require.NoError(t, cluster.MergePatch(live, `{"data":{"greeting":"mine"}}`))
	l.awaitGreeting("a", "hello")

	// Without a change: the query alone, and no write of a VidraResource.
	l.Reset()
	mark := cluster.AuditMark(t)
	l.request()
	l.requireRequests(0, 1, 0)
	written := cluster.ByOperator(t, mark).Only(func(r suite.Request) bool {
		return r.Resource == "vidraresources" && r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" && strings.HasPrefix(r.Name, l.ns)
	})
	require.Empty(t, written)

	// A changed artifact is read, and no other one.
	l.Reset()
	l.Set(l.artifact("a", "goodbye"))
	l.request()
	l.awaitGreeting("a", "goodbye")
	l.requireRequests(0, 1, 1)

	// An edit of a VidraResource, and its deletion, are undone.
	vr = l.resources(t)[l.id("b")]
	require.NoError(t, cluster.MergePatch(vr, `{"spec":{"manifest":%q}}`, suite.Greeting("b", "edited")))
	suite.Await(t, func(c *assert.CollectT) {
		is := cluster.GetVidraResource(c, vr.Name)
		require.Greater(c, is.Generation, vr.Generation)
		require.Contains(c, is.Spec.Manifest, "hello")
	})
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), vr.Name))
	suite.Await(t, func(c *assert.CollectT) { require.NotEqual(c, vr.UID, cluster.GetVidraResource(c, vr.Name).UID) })
	l.awaitGreeting("b", "hello")

	l.Remove(l.id("c"))
	l.request()
	cluster.AwaitGone(t, configMap(l.ns, "c"))
	l.requireResources(t, "a", "b")

	// The VidraResources go with the InfrahubSync.
	require.NoError(t, cluster.Admin.Delete(t.Context(), is))
	cluster.AwaitGone(t, configMap(l.ns, "a"))
	cluster.AwaitGone(t, configMap(l.ns, "b"))
}

// requireRequests requires how many requests of each kind the server received.
func (l *lab) requireRequests(logins, queries, contents int) {
	l.t.Helper()
	require.Len(l.t, l.Requests("/api/auth/login"), logins)
	require.Len(l.t, l.Requests("/api/query/"), queries)
	require.Len(l.t, append(l.Requests("/api/artifact/"), l.Requests("/api/storage/object/")...), contents)
}

// TestContract has a row for each form of the contract with the first operator and with Infrahub.
func TestContract(t *testing.T) {
	t.Parallel()
	query := func(l *lab) standin.Request { return l.Requests("/api/query/")[len(l.Requests("/api/query/"))-1] }
	cases := map[string]struct {
		reason      string
		server      standin.Options
		credentials map[string]string
		sync        func(*v1alpha1.InfrahubSync)
		artifact    func(*standin.Artifact)
		check       func(*testing.T, *lab)
	}{
		"Password": {reason: "a login gives the bearer token of the query with its variable", check: func(t *testing.T, l *lab) {
			q := query(l)
			require.Equal(t, http.MethodPost, q.Method)
			require.Equal(t, "/api/query/ArtifactIDs", q.Path)
			require.Equal(t, map[string][]string{"branch": {"main"}, "update_group": {"false"}}, map[string][]string(q.Query))
			require.JSONEq(t, `{"variables":{"artifactname":"Webserver_Manifest"}}`, q.Body)
			require.True(t, strings.HasPrefix(q.Bearer, "token-"))
		}},
		"Token": {
			reason: "a token is sent as a key, and there is no login", server: standin.Options{Key: "key-123456"}, credentials: map[string]string{"token": "key-123456\n"},
			check: func(t *testing.T, l *lab) {
				require.Equal(t, "key-123456", query(l).Key)
				require.Empty(t, l.Requests("/api/auth/login"))
			},
		},
		"ReadOnly": {reason: "an account that may only read sends the query by GET", server: standin.Options{RefusePost: http.StatusForbidden}, check: func(t *testing.T, l *lab) {
			require.Equal(t, http.MethodGet, query(l).Method)
			require.Equal(t, artifactName, query(l).Query.Get("artifactname"))
		}},
		"NoPost": {reason: "a server without the query by POST has it by GET", server: standin.Options{RefusePost: http.StatusMethodNotAllowed}},
		"PostUnknown": {reason: "it may not know the path with POST", server: standin.Options{RefusePost: http.StatusNotFound}, check: func(t *testing.T, l *lab) {
			l.Reset()
			l.request()
			require.Len(t, l.Requests("/api/query/"), 1, "it is sent with GET at once")
		}},
		"NoStorage": {reason: "without a storage id, an artifact is read by its id", server: standin.Options{NoStorage: true}, check: func(t *testing.T, l *lab) {
			require.Len(t, l.Requests("/api/artifact/"+l.id("a")), 1)
			require.Equal(t, "main", l.Requests("/api/artifact/")[0].Query.Get("branch"))
		}},
		"Moved": {reason: "the same content in another place is no change of the objects", check: func(t *testing.T, l *lab) {
			vr, live := cluster.AwaitReady(t, l.id("a")), cluster.Get(t, configMap(l.ns, "a"))
			moved := l.artifact("a", "hello")
			moved.Storage = "elsewhere"
			l.Set(moved)
			l.Reset()
			l.request()
			l.requireRequests(0, 1, 1)
			require.Equal(t, vr.Generation, l.resources(t)[l.id("a")].Generation)
			require.Equal(t, live.GetResourceVersion(), cluster.Get(t, live).GetResourceVersion())
		}},
		"JSON": {reason: "an artifact may be JSON", artifact: func(a *standin.Artifact) {
			a.ContentType, a.Content = "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"greeting":"hello"}}`
		}},
		"JSONList": {reason: "or a List", artifact: func(a *standin.Artifact) {
			a.ContentType, a.Content = "application/json", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"greeting":"hello"}}]}`
		}},
		"Documents": {reason: "an artifact may have several documents", artifact: func(a *standin.Artifact) {
			a.Content = "---\n# first\n---\n" + a.Content + "---\n" + suite.Greeting("second", "hello") + "...\n"
		}, check: func(_ *testing.T, l *lab) { l.awaitGreeting("second", "hello") }},
		"TokenExpires": {reason: "a token that expires between the query and the artifact is renewed", check: func(_ *testing.T, l *lab) {
			l.Set(l.artifact("a", "goodbye"))
			l.Instead(func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasPrefix(r.URL.Path, "/api/storage") {
					l.Instead(nil)
					l.Revoke()
				}
				return false
			})
			l.Reset()
			l.request()
			l.await(v1alpha1.SyncReasonSynced)
			l.awaitGreeting("a", "goodbye")
			l.requireRequests(1, 1, 2)
		}},
		"Plain": {reason: "the query of the first operator asks for no status and no content type", server: standin.Options{Plain: true}},
		"Pages": {reason: "a query with a limit is read page by page", server: standin.Options{PageSize: 1}, check: func(t *testing.T, l *lab) {
			l.Set(l.artifact("b", "hello"), l.artifact("c", "hello"))
			l.request()
			l.awaitGreeting("c", "hello")
			l.requireResources(t, "a", "b", "c")
		}},
		"Branch": {
			reason: "another branch has other artifacts", sync: func(is *v1alpha1.InfrahubSync) { is.Spec.Source.TargetBranch = "feature/x" },
			check: func(t *testing.T, l *lab) { require.Equal(t, "feature/x", query(l).Query.Get("branch")) },
		},
		"Date": {
			reason: "a date is that of the query", sync: func(is *v1alpha1.InfrahubSync) { is.Spec.Source.TargetDate = "2099-01-01T00:00:00+01:00" },
			check: func(t *testing.T, l *lab) { require.Equal(t, "2098-12-31T23:00:00Z", query(l).Query.Get("at")) },
		},
		"Slash":  {reason: "a URL may end with a slash", sync: func(is *v1alpha1.InfrahubSync) { is.Spec.Source.InfrahubAPIURL += "/" }},
		"OwnURL": {reason: "vidra-cli writes the URL into the Secret", credentials: map[string]string{"username": "admin", "password": "infrahub", "infrahubapiurl": "URL"}},
		"EventsOff": {
			reason: "reconcileOnEvents is false by default, as in the first operator", sync: func(is *v1alpha1.InfrahubSync) { is.Spec.Destination.ReconcileOnEvents = false },
			check: func(t *testing.T, l *lab) { require.False(t, l.resources(t)[l.id("a")].WatchesEvents()) },
		},
		"Template": {
			reason: "a template sets fields of the VidraResources", sync: func(is *v1alpha1.InfrahubSync) {
				is.Spec.Template = &v1alpha1.VidraResourceTemplate{
					Labels: map[string]string{"team": "web"}, Annotations: map[string]string{"note": "yes"}, DeletionPolicy: v1alpha1.DeletionDelete, Adopt: v1alpha1.AdoptAlways,
					Drift: &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn},
				}
			},
			check: func(t *testing.T, l *lab) {
				vr := l.resources(t)[l.id("a")]
				require.Equal(t, "web", vr.Labels["team"])
				require.Equal(t, "yes", vr.Annotations["note"])
				require.Equal(t, v1alpha1.AdoptAlways, vr.Spec.Adopt)
				require.Equal(t, v1alpha1.DriftWarn, vr.Spec.Drift.Mode)
				// A field that leaves the template leaves the VidraResources.
				require.NoError(t, cluster.MergePatch(l.get(t), `{"spec":{"template":{"labels":null}}}`))
				suite.Await(t, func(c *assert.CollectT) { require.NotContains(c, l.resources(c)[l.id("a")].Labels, "team") })
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, tc.server)
			if tc.credentials["infrahubapiurl"] != "" {
				tc.credentials["infrahubapiurl"] = l.url
			}
			l.credentials(tc.credentials)
			for _, branch := range []string{"main", "feature/x"} {
				a := l.artifact("a", "hello")
				a.Branch = branch
				if tc.artifact != nil {
					tc.artifact(&a)
				}
				l.Set(a)
			}
			is := l.sync(func(is *v1alpha1.InfrahubSync) {
				if tc.sync != nil {
					tc.sync(is)
				}
			})
			require.Equal(t, l.ns, is.Name)
			l.await(v1alpha1.SyncReasonSynced)
			l.awaitGreeting("a", "hello")
			if tc.check != nil {
				tc.check(t, l)
			}
		})
	}
}

// TestTargetDate reads artifacts as they were: at a time, and relative to now.
func TestTargetDate(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "old"))
	l.Age(time.Hour)
	l.Set(l.artifact("a", "new"))
	l.sync(func(is *v1alpha1.InfrahubSync) {
		is.Spec.Source.TargetDate = time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	})
	l.awaitGreeting("a", "old")
	for date, ago := range map[string]time.Duration{"now-2h": 2 * time.Hour, "-2d": 48 * time.Hour} {
		l.Reset()
		require.NoError(t, cluster.MergePatch(l.get(t), `{"spec":{"source":{"targetDate":%q}}}`, date))
		suite.Await(t, func(c *assert.CollectT) {
			sent := l.Requests("/api/query/")
			require.NotEmpty(c, sent)
			at, err := time.Parse(time.RFC3339, sent[len(sent)-1].Query.Get("at"))
			require.NoError(c, err)
			require.WithinDuration(c, time.Now().Add(-ago), at, suite.Patience)
		})
	}
	l.await(v1alpha1.SyncReasonConfirmationRequired) // two days ago there was nothing
	err := cluster.MergePatch(l.get(t), `{"spec":{"source":{"targetDate":"yesterday"}}}`)
	require.ErrorContains(t, err, "targetDate")
}

// TestSettings reads the ConfigMap of the first operator.
func TestSettings(t *testing.T) {
	l := newLab(t, standin.Options{QueryName: "Mine"})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"))
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: "vidra-config", Labels: map[string]string{"app": "vidra"}},
		Data:       map[string]string{"queryName": "Mine", "requeueSyncAfter": "11s", "requeueResourceAfter": "1s"},
	}
	require.NoError(t, cluster.Admin.Create(t.Context(), settings))
	restartOperator(t)
	t.Cleanup(func() { // the other tests have the default
		require.NoError(t, cluster.Admin.Delete(cleanup, settings))
		restartOperator(t)
	})
	l.sync(func(is *v1alpha1.InfrahubSync) { is.Spec.Interval = nil })
	l.awaitGreeting("a", "hello")
	suite.AwaitFor(t, 50*time.Second, func(c *assert.CollectT) { require.GreaterOrEqual(c, len(l.Requests("/api/query/Mine")), 2) }, "it queries every 11 seconds, and not every minute")
}

// TestTokenIsKept requires one login for many syncs, and one more when the server refuses the token.
func TestTokenIsKept(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	secret := l.credentials(nil)
	l.Set(l.artifact("a", "hello"))
	l.sync()
	l.await(v1alpha1.SyncReasonSynced)
	l.request()
	l.request()
	require.Len(t, l.Requests("/api/auth/login"), 1)
	l.Revoke()
	l.request()
	require.Len(t, l.Requests("/api/auth/login"), 2)
	l.await(v1alpha1.SyncReasonSynced)

	// A new password is read when the old one is refused.
	l.Revoke()
	l.Instead(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path == "/api/auth/login" && always("/", http.StatusUnauthorized, nil, `{"errors":[{"message":"Incorrect password infrahub"}]}`)(w, r)
	})
	l.request()
	is := l.await(v1alpha1.SyncReasonUnauthorized, "answer 401", "Secret")
	text, err := json.Marshal(is)
	require.NoError(t, err)
	require.NotContains(t, string(text), "password infrahub", "the server repeated the password")
	l.requireResources(t, "a")
	l.Instead(nil)
	require.NoError(t, cluster.MergePatch(secret, `{"stringData":{"password":"infrahub"},"metadata":{"annotations":{"rotated":"yes"}}}`))
	l.await(v1alpha1.SyncReasonSynced)
}

// TestCredentials has a row for each Secret that cannot be used.
func TestCredentials(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, message string
		data            map[string]string
	}{
		"Missing":  {"there is none", "no Secret in any namespace has the label infrahub-api-url=127.", nil},
		"Half":     {"the password is missing", "neither the keys username and password nor the key token", map[string]string{"username": "admin"}},
		"OtherURL": {"the Secret is for another port", "is for another URL", map[string]string{"username": "admin", "password": "infrahub", "infrahubapiurl": "http://127.0.0.1:1"}},
		"CA":       {"the CA is no certificate", "ca.crt has no certificate", map[string]string{"username": "admin", "password": "infrahub", "ca.crt": "no"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, standin.Options{})
			l.Set(l.artifact("a", "hello"))
			if tc.data != nil {
				l.credentials(tc.data)
			}
			l.sync()
			is := l.await(v1alpha1.SyncReasonCredentialsMissing, tc.message)
			require.Equal(t, v1alpha1.SyncFailed, is.Status.SyncState, tc.reason)
			require.NotContains(t, is.Status.LastError, "infrahub\"")
			require.Empty(t, l.Requests("/"), "nothing is sent")
			if tc.data == nil { // it is noticed when it is there
				l.credentials(nil)
				l.await(v1alpha1.SyncReasonSynced)
			}
		})
	}
}

// TestSecretsOfTenants: a Secret in the namespace of the operator precedes those of others, which are older. Of others, the oldest one
// counts: TestSecretsInOrder.
func TestSecretsOfTenants(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(map[string]string{"username": "tenant", "password": "other"})
	own := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: l.ns, Labels: map[string]string{v1alpha1.InfrahubURLLabel: l.host}},
		StringData: map[string]string{"username": "admin", "password": "infrahub"},
	}
	require.NoError(t, cluster.Admin.Create(t.Context(), own))
	t.Cleanup(func() { require.NoError(t, cluster.Admin.Delete(cleanup, own)) })
	l.Set(l.artifact("a", "hello"))
	l.sync()
	l.await(v1alpha1.SyncReasonSynced)
}

// TestSuspend stops the queries and leaves the VidraResources.
func TestSuspend(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"))
	l.sync()
	l.awaitGreeting("a", "hello")
	require.NoError(t, cluster.MergePatch(l.get(t), `{"spec":{"suspend":true}}`))
	require.Equal(t, v1alpha1.SyncStale, l.await(v1alpha1.SyncReasonSuspended).Status.SyncState)
	l.Set(l.artifact("a", "goodbye"))
	l.Reset()
	l.request()
	require.Empty(t, l.Requests("/"))
	require.NoError(t, cluster.MergePatch(l.get(t), `{"spec":{"suspend":false}}`))
	l.awaitGreeting("a", "goodbye")
}

// TestAccount: the VidraResources have the account of the InfrahubSync.
func TestAccount(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	require.NoError(t, cluster.Admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "deployer"}}))
	a := l.artifact("a", "hello")
	a.Content += "---\n" + secretManifest
	l.Set(a)
	l.sync(func(is *v1alpha1.InfrahubSync) { is.Spec.ServiceAccountName = "deployer" })
	l.await(v1alpha1.SyncReasonSynced)
	vr := l.resources(t)[a.ID]
	require.Equal(t, "deployer", vr.Spec.ServiceAccountName)
	require.Equal(t, l.ns, vr.Spec.ManifestFrom[0].Namespace, "the account can be granted Secrets there alone")
	part := &corev1.Secret{ObjectMeta: configMap(l.ns, vr.Spec.ManifestFrom[0].Name).ObjectMeta}
	require.NoError(t, cluster.MergePatch(l.get(t), `{"spec":{"serviceAccountName":null}}`))
	cluster.AwaitGone(t, part) // it moves
	require.Equal(t, testenv.OperatorNamespace, l.resources(t)[a.ID].Spec.ManifestFrom[0].Namespace)
	err := cluster.Admin.Create(t.Context(), &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: l.ns + "-x"}, Spec: v1alpha1.InfrahubSyncSpec{
		Source: v1alpha1.InfrahubSyncSource{InfrahubAPIURL: l.url, ArtifactName: "x"}, ServiceAccountName: "deployer",
	}})
	require.ErrorContains(t, err, "serviceAccountName names a ServiceAccount in spec.destination.namespace")
}

// TestSamples: the samples of the first operator and ours are accepted.
func TestSamples(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"sample": `{"source":{"infrahubAPIURL":"https://infrahub-server.infrahub.orb.local","targetBranch":"main","targetDate":"2025-04-09T00:00:00Z","artefactName":"Webserver_Manifest"},"destination":{"namespace":"default","reconcileOnEvents":true}}`,
		"multi":  `{"source":{"infrahubAPIURL":"https://infrahub-server.infrahub.orb.local","targetBranch":"main","artefactName":"Webserver_Manifest"},"destination":{"server":"https://k8s-cldop-stud-g00.network.garden:6443","namespace":"default"}}`,
		"least":  `{"source":{"infrahubAPIURL":"http://infrahub:8000","artefactName":"x"}}`,
	} {
		is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "sample-" + name}}
		require.NoError(t, json.Unmarshal([]byte(text), &is.Spec))
		require.NoError(t, cluster.Admin.Create(t.Context(), is, client.DryRunAll), name)
		require.Equal(t, "main", is.Spec.Source.TargetBranch)
	}
}
