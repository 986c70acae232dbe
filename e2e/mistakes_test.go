package e2e

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

func TestApplyWhatCanBeApplied(t *testing.T) {
	t.Parallel()
	const service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: broken\nspec:\n  ports:\n  - port: %d\n"
	tests := map[string]struct {
		reason string
		// broken is a document that is not accepted, fixed one that is.
		broken, fixed string
		kind          string
		// fix is what else may have to be done.
		fix  func(t *testing.T, ns string)
		want string
		part string
	}{
		"invalid": {
			reason: "the API server calls the object invalid, which only its author can fix",
			broken: fmt.Sprintf(service, 99999), fixed: fmt.Sprintf(service, 80), kind: "Service",
			want: v1alpha1.ReasonManifestInvalid, part: "99999",
		},
		"wrong type": {
			reason: "a value of a wrong type is the author's mistake, too",
			broken: "apiVersion: v1\nkind: Service\nmetadata:\n  name: broken\nspec:\n  ports: none\n",
			fixed:  fmt.Sprintf(service, 80), kind: "Service",
			want: v1alpha1.ReasonManifestInvalid, part: "ports",
		},
		"no namespace": {
			reason: "a namespace may appear later, without a change of the manifest",
			broken: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: broken\n  namespace: %[1]s-late\n", kind: "ConfigMap",
			fix: func(t *testing.T, ns string) {
				t.Helper()
				require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns + "-late"}}))
			},
			want: v1alpha1.ReasonApplyFailed, part: "-late does not exist",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			if tt.fix != nil {
				tt.broken = fmt.Sprintf(tt.broken, ns)
				tt.fixed = tt.broken
			}
			around := func(document string) string {
				return manifests(configMap("first", "hello"), document, configMap("last", "hello"))
			}
			newVidraResource(t, ns, around(tt.broken))
			v := awaitNotReady(t, ns, tt.want, tt.kind, "broken", tt.part)
			for _, other := range []string{"first", "last"} {
				live := requireInOrder(t, ns, declaredObject(t, ns, around(tt.broken), "ConfigMap", other))
				require.Equal(t, v1alpha1.ObjectApplied, entry(t, v, "ConfigMap", other).State, tt.reason)
				require.Equal(t, string(live.GetUID()), entry(t, v, "ConfigMap", other).UID)
			}
			failed := entry(t, v, tt.kind, "broken")
			require.Equal(t, v1alpha1.ObjectFailed, failed.State)
			require.Empty(t, failed.UID)
			require.Equal(t, v1alpha1.DeployFailed, v.Status.DeployState)
			require.Contains(t, v.Status.LastError, tt.part)
			require.Nil(t, v.Status.LastSyncTime, "it was never applied in full")
			awaitEvent(t, v, corev1.EventTypeWarning, tt.want, "Apply", "broken", tt.part)

			if tt.fix != nil {
				tt.fix(t, ns)
			} else {
				setManifest(t, ns, around(tt.fixed))
			}
			v = awaitReady(t, ns)
			require.Empty(t, v.Status.LastError)
			require.NotNil(t, v.Status.LastSyncTime)
			require.Len(t, v.Status.ManagedResources, 3)
			require.NotEmpty(t, entry(t, v, tt.kind, "broken").UID)
			awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", tt.part)
		})
	}
}

func TestUnreadableManifestChangesNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason   string
		manifest string
		want     string
		parts    []string
	}{
		"yaml": {
			reason:   "the good documents around the bad one are not applied either",
			manifest: manifests(configMap("new", "hello"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad\n", configMap("newer", "hello")),
			parts:    []string{"document 2", "line "},
		},
		"no kind": {
			reason:   "YAML that is not an object is a mistake",
			manifest: manifests(configMap("new", "hello"), "greeting: hello\n"),
			parts:    []string{"document 2", "line "},
		},
		"twice": {
			reason:   "of two documents about one object, one is a mistake",
			manifest: manifests(configMap("new", "hello"), configMap("new", "hi")),
			parts:    []string{"document 2", "ConfigMap", "new"},
		},
		"itself": {
			reason: "it would apply and prune itself",
			manifest: manifests(configMap("new", "hello"),
				"apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata:\n  name: SELF\nspec:\n  manifest: '{}'\n"),
			parts: []string{"document 2", "VidraResource", "itself"},
		},
		"template": {
			reason:   "a template that was not rendered is no manifest",
			manifest: configMap("{{ .Values.name }}", "hello"),
			parts:    []string{"document 1"},
		},
		"cyclic": {
			reason:   "an alias that holds itself has no end",
			manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: &m\n  name: loop\n  annotations: *m\n",
			parts:    []string{"document 1"},
		},
		"empty": {
			reason:   "an empty manifest is more likely a slip than the wish to remove everything",
			manifest: "# nothing\n",
			want:     v1alpha1.ReasonManifestEmpty,
			parts:    []string{"no object"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			good := configMap("old", "hello")
			tt.manifest = strings.ReplaceAll(tt.manifest, "SELF", ns)
			newVidraResource(t, ns, good)
			before := awaitReady(t, ns)
			old := requireInOrder(t, ns, declared(t, ns, good)[0])

			mark := auditMark(t)
			setManifest(t, ns, tt.manifest)
			want := cmp.Or(tt.want, v1alpha1.ReasonManifestInvalid)
			v := awaitNotReady(t, ns, want, tt.parts...)
			require.Equal(t, metav1.ConditionTrue, condition(t, v, v1alpha1.ConditionStalled).Status, tt.reason)
			require.Equal(t, v1alpha1.DeployFailed, v.Status.DeployState)
			awaitEvent(t, v, corev1.EventTypeWarning, want, "Apply", tt.parts...)
			require.Equal(t, before.Status.ManagedResources, v.Status.ManagedResources)
			require.Equal(t, old.GetResourceVersion(), get(t, old).GetResourceVersion())
			require.Empty(t, operatorSince(t, mark).ObjectsIn(ns), "nothing is applied, nothing is pruned")

			setManifest(t, ns, "{")
			awaitEvent(t, v, corev1.EventTypeWarning, "ManifestInvalid", "Apply", "document 1") // another mistake is told, too

			setManifest(t, ns, good)
			v = awaitReady(t, ns)
			awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "document 1")
			require.Equal(t, old.GetUID(), get(t, old).GetUID())
		})
	}
}

// TestErrorsKeepSecrets provokes errors about Secrets in which the API server,
// or a parser, would quote the value.
func TestErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	const secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\n"
	tests := map[string]struct {
		reason   string
		manifest string
		value    string
	}{
		"number": {
			reason:   "the API server quotes a value of a wrong type",
			manifest: secret + "stringData:\n  password: 31415926\n",
			value:    "31415926",
		},
		"object": {
			reason:   "and a whole object",
			manifest: secret + "data:\n  password:\n    nested: hunter2\n",
			value:    "hunter2",
		},
		"not base64": {
			reason:   "a password in plain text where base64 is due is the usual mistake",
			manifest: secret + "data:\n  password: hunter2!\n",
			value:    "hunter2",
		},
		"bad key": {
			reason:   "the key is wrong, not the value",
			manifest: secret + "data:\n  \"pass word\": aHVudGVyMg==\n",
			value:    "aHVudGVyMg",
		},
		"in a list": {
			reason:   "a Secret in a List is one, too",
			manifest: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"login"},"data":{"password":"hunter2!"}}]}`,
			value:    "hunter2",
		},
		"broken yaml": {
			reason:   "a parser quotes the line that it cannot read",
			manifest: secret + "stringData:\n  password: hunter2: [\n",
			value:    "hunter2",
		},
		"key twice": {
			reason:   "a parser quotes what is there twice",
			manifest: secret + "stringData:\n  password: hunter2\n  password: hunter2\n",
			value:    "hunter2",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, manifests(configMap("c", "hello"), tt.manifest))
			v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid)
			awaitEvent(t, v, corev1.EventTypeWarning, "ManifestInvalid", "Apply")
			require.NotContains(t, fmt.Sprint(v.Status), tt.value, tt.reason)
			for _, e := range eventsAbout(t, v) {
				require.NotContains(t, e.String(), tt.value, tt.reason)
			}
			require.NotContains(t, operatorLog(t), tt.value, tt.reason)
		})
	}
}

// TestDestinationThatIsAnotherCluster says so, and touches nothing here.
func TestDestinationThatIsAnotherCluster(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("c", "hello"), func(v *v1alpha1.VidraResource) {
		v.Spec.Destination.Server = "https://elsewhere.invalid:6443"
	})
	v := awaitNotReady(t, ns, v1alpha1.ReasonDestinationUnreachable, "elsewhere.invalid")
	awaitEvent(t, v, corev1.EventTypeWarning, "DestinationUnreachable", "Connect", "elsewhere.invalid")
	require.Empty(t, v.Status.ManagedResources)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
}
