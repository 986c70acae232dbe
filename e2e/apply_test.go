package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

func TestApply(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	before := time.Now().Truncate(time.Second)
	newVidraResource(t, ns, web)
	v := awaitReady(t, ns)

	objs := declared(t, ns, web)
	require.Len(t, v.Status.ManagedResources, len(objs))
	require.EqualValues(t, len(objs), v.Status.Objects)
	for _, obj := range objs {
		live := requireInOrder(t, ns, obj)
		require.Equal(t, []string{"vidra/" + ns}, appliedBy(live), "one field manager for each VidraResource")
		e := entry(t, v, obj.GetKind(), obj.GetName())
		require.Equal(t, obj.GetAPIVersion(), e.APIVersion)
		require.Equal(t, ns, e.Namespace)
		require.Equal(t, string(live.GetUID()), e.UID)
		require.NotEmpty(t, e.Digest)
		require.Equal(t, v1alpha1.ObjectApplied, e.State)
	}

	require.Equal(t, v1alpha1.DeploySucceeded, v.Status.DeployState)
	require.Empty(t, v.Status.LastError)
	require.Contains(t, v.Finalizers, v1alpha1.Finalizer)
	require.Equal(t, "All objects are applied (4)", condition(t, v, v1alpha1.ConditionReady).Message)
	watching := condition(t, v, v1alpha1.ConditionWatching)
	require.Equal(t, metav1.ConditionTrue, watching.Status)
	require.Equal(t, v1alpha1.ReasonSynced, watching.Reason)
	drifted := condition(t, v, v1alpha1.ConditionDrifted)
	require.Equal(t, metav1.ConditionFalse, drifted.Status)
	require.Equal(t, v1alpha1.ReasonInSync, drifted.Reason)
	require.Len(t, v.Status.Conditions, 3, "Reconciling and Stalled are there while they are true")
	require.NotNil(t, v.Status.LastSyncTime)
	require.WithinRange(t, v.Status.LastSyncTime.Time, before, time.Now())

	awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", "4 created, 0 changed")
}

func TestApplyChangedManifest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("a", "hello"), configMap("b", "hello")))
	v := awaitReady(t, ns)
	uid := entry(t, v, "ConfigMap", "a").UID

	changed := manifests(configMap("a", "hi"), configMap("b", "hello"), configMap("c", "hello"))
	setManifest(t, ns, changed)
	v = awaitReady(t, ns)
	require.EqualValues(t, 2, v.Status.ObservedGeneration)
	require.Len(t, v.Status.ManagedResources, 3)
	require.Equal(t, uid, entry(t, v, "ConfigMap", "a").UID, "it is changed, not replaced")
	for _, obj := range declared(t, ns, changed) {
		requireInOrder(t, ns, obj)
	}
	awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", "1 created, 1 changed")
}

// TestApplyManifestOfFirstOperator applies what people have in their
// repositories today.
func TestApplyManifestOfFirstOperator(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"greeting":"hello"}}`
	at := metav1.NewTime(time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC))
	newVidraResource(t, ns, manifest, func(v *v1alpha1.VidraResource) {
		v.Spec.Destination.Server = "https://kubernetes.default.svc"
		v.Spec.ReconciledAt = &at
	})
	v := awaitReady(t, ns)
	requireInOrder(t, ns, declared(t, ns, manifest)[0])
	require.True(t, v.Spec.ReconciledAt.Equal(&at), "nobody writes to the spec")
	require.EqualValues(t, 1, v.Generation)
}

// TestApplyTakesOverFromFirstOperator has an object that the first operator
// made: it wrote a label, an annotation and no managedFields of ours.
func TestApplyTakesOverFromFirstOperator(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	old := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c", Namespace: ns,
			Labels:      map[string]string{"managed-by": "vidra"},
			Annotations: map[string]string{v1alpha1.OwnerAnnotation: "somebody-else," + ns},
		},
		Data: map[string]string{"greeting": "hello", "extra": "kept"},
	}
	require.NoError(t, admin.Create(t.Context(), old))

	manifest := configMap("c", "hello")
	newVidraResource(t, ns, manifest)
	v := awaitReady(t, ns)
	live := requireInOrder(t, ns, declared(t, ns, manifest)[0])
	require.Equal(t, old.UID, live.GetUID())
	require.Equal(t, string(old.UID), entry(t, v, "ConfigMap", "c").UID)
	require.Empty(t, difference("", map[string]any{"data": map[string]any{"extra": "kept"}}, live.Object))

	require.NoError(t, mergePatch(old, `{"data":{"greeting":"changed"}}`))
	awaitInOrder(t, ns, declared(t, ns, manifest)[0])
}

func TestApplyWhatCanBeApplied(t *testing.T) {
	t.Parallel()
	const service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: broken\nspec:\n  ports:\n  - port: %d\n"
	tests := map[string]struct {
		reason string
		// broken is a document that is not accepted, mended one that is.
		broken, mended string
		kind           string
		// mend is what may have to be done besides.
		mend func(t *testing.T, ns string)
		want string
		part string
	}{
		"invalid": {
			reason: "the API server calls the object invalid, which only its author can mend",
			broken: fmt.Sprintf(service, 99999), mended: fmt.Sprintf(service, 80), kind: "Service",
			want: v1alpha1.ReasonManifestInvalid, part: "99999",
		},
		"wrong type": {
			reason: "a value of a wrong type is the author's mistake, too",
			broken: "apiVersion: v1\nkind: Service\nmetadata:\n  name: broken\nspec:\n  ports: none\n",
			mended: fmt.Sprintf(service, 80), kind: "Service",
			want: v1alpha1.ReasonManifestInvalid, part: "ports",
		},
		"no namespace": {
			reason: "a namespace may appear later, without a change of the manifest",
			broken: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: broken\n  namespace: %[1]s-late\n", kind: "ConfigMap",
			mend: func(t *testing.T, ns string) {
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
			if tt.mend != nil {
				tt.broken = fmt.Sprintf(tt.broken, ns)
				tt.mended = tt.broken
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

			if tt.mend != nil {
				tt.mend(t, ns)
			} else {
				setManifest(t, ns, around(tt.mended))
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
		"empty": {
			reason:   "an empty manifest is more likely a slip than the wish to remove everything",
			manifest: "# nothing\n",
			parts:    []string{"no object"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			good := configMap("old", "hello")
			newVidraResource(t, ns, good)
			before := awaitReady(t, ns)
			old := requireInOrder(t, ns, declared(t, ns, good)[0])

			mark := env.AuditMark()
			setManifest(t, ns, tt.manifest)
			v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, tt.parts...)
			require.Equal(t, metav1.ConditionTrue, condition(t, v, v1alpha1.ConditionStalled).Status, tt.reason)
			require.Equal(t, v1alpha1.DeployFailed, v.Status.DeployState)
			awaitEvent(t, v, corev1.EventTypeWarning, "ManifestInvalid", "Apply", tt.parts...)
			require.Equal(t, before.Status.ManagedResources, v.Status.ManagedResources)
			require.Equal(t, old.GetResourceVersion(), get(t, old).GetResourceVersion())
			require.Empty(t, operatorSince(t, mark).objectsIn(ns), "nothing is applied, nothing is pruned")

			setManifest(t, ns, "{")
			awaitEvent(t, v, corev1.EventTypeWarning, "ManifestInvalid", "Apply", "document 1") // another mistake is told, too

			setManifest(t, ns, good)
			v = awaitReady(t, ns)
			awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "document 1")
			require.Equal(t, old.GetUID(), get(t, old).GetUID())
		})
	}
}

func TestForeignObjectIsLeftAlone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	foreign := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: ns},
		Data:       map[string]string{"greeting": "mine"},
	}
	require.NoError(t, admin.Create(t.Context(), foreign))
	manifest := manifests(configMap("foreign", "hello"), configMap("ours", "hello"))
	newVidraResource(t, ns, manifest)

	v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+ns+"/foreign", "Vidra does not manage it")
	awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", "foreign")
	requireInOrder(t, ns, declaredObject(t, ns, manifest, "ConfigMap", "ours"))
	require.Len(t, v.Status.ManagedResources, 1, "what is not ours is not in the inventory")

	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	require.Equal(t, foreign.ResourceVersion, get(t, foreign).GetResourceVersion(), "it was never touched")
}

func TestForeignObjectThatGoesAwayIsApplied(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: ns}}
	require.NoError(t, admin.Create(t.Context(), foreign))
	newVidraResource(t, ns, configMap("c", "hello"))
	v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "Vidra does not manage it")
	require.NoError(t, admin.Delete(t.Context(), foreign))
	awaitReady(t, ns)
	requireInOrder(t, ns, declared(t, ns, configMap("c", "hello"))[0])
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "does not manage it")
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
	v := awaitNotReady(t, ns, v1alpha1.ReasonDestinationUnsupported, "elsewhere.invalid")
	awaitEvent(t, v, corev1.EventTypeWarning, "DestinationUnsupported", "Apply", "elsewhere.invalid")
	require.Empty(t, v.Status.ManagedResources)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, deleteVidraResource(t.Context(), ns))
	}, patience, poll)
	awaitGone(t, v)
}
