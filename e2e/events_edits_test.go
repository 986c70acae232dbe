package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// page is a ConfigMap with two fields, of which a user changes one and the manifest the
// other.
func page(greeting, farewell string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\ndata:\n  greeting: %s\n  farewell: %s\n", greeting, farewell)
}

// notesAbout are the notes of the Events about objects.
func notesAbout(t require.TestingT, objs ...client.Object) string {
	var notes []string
	for _, obj := range objs {
		for _, e := range eventsAbout(t, obj) {
			notes = append(notes, e.Reason+": "+e.Note)
		}
	}
	return strings.Join(notes, "\n")
}

// awaitData waits until a ConfigMap holds exactly data.
func awaitData(t *testing.T, obj *unstructured.Unstructured, data map[string]any) {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.Equal(c, data, get(c, obj).Object["data"]) })
}

// TestEventsOfAnEditBehindANewManifest: what a user changed in an object that was not reverted
// so is told when a new manifest puts it back, and what only the manifest changed is not.
func TestEventsOfAnEditBehindANewManifest(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, edit, detected string
		manifest               string
		want                   map[string]any
		told                   string // empty: nothing was reverted
	}{
		"another field": {
			reason:   "a policy does not keep a new manifest back, and the edit goes with it",
			edit:     `{"data":{"greeting":"hi"}}`,
			detected: "data.greeting", manifest: page("hello", "so-long"),
			want: map[string]any{"greeting": "hello", "farewell": "so-long"},
			told: `reverted data.greeting to "hello"; "person" had set it to "hi"`,
		},
		"the same field": {
			reason:   "neither the old value nor the edit is what is there then",
			edit:     `{"data":{"greeting":"hi"}}`,
			detected: "data.greeting", manifest: page("good-day", "goodbye"),
			want: map[string]any{"greeting": "good-day", "farewell": "goodbye"},
			told: `reverted data.greeting to "good-day"; "person" had set it to "hi"`,
		},
		"removed": {
			reason:   "who removes a field owns nothing, so what was seen before counts",
			edit:     `{"data":{"greeting":null}}`,
			detected: "data.greeting", manifest: page("hello", "so-long") + "  extra: new\n",
			want: map[string]any{"greeting": "hello", "farewell": "so-long", "extra": "new"},
			told: `restored data.greeting to "hello"`,
		},
		"agreed": {
			reason:   "the manifest has taken the edit over, and has something new besides",
			edit:     `{"data":{"greeting":"hi"}}`,
			detected: "data.greeting", manifest: page("hi", "so-long") + "  extra: new\n",
			want: map[string]any{"greeting": "hi", "farewell": "so-long", "extra": "new"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, page("hello", "goodbye"), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
			v := awaitReady(t, ns)
			obj := declaredObject(t, ns, page("hello", "goodbye"), "ConfigMap", "page")
			require.NoError(t, mergePatch(obj, "%s", tt.edit))
			awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", tt.detected)

			setManifest(t, ns, tt.manifest)
			awaitData(t, obj, tt.want)
			awaitReady(t, ns)
			awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", "0 created, 1 changed")
			if tt.told != "" {
				requireTold(t, v, obj, []string{tt.told}, nil)
				require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "DriftCorrected")))
			}
			// What is told of the next manifest comes after all that was told of this one.
			setManifest(t, ns, strings.Replace(tt.manifest, "farewell: ", "farewell: once-more-", 1))
			await(t, func(c *assert.CollectT) { require.Len(c, withReason(eventsAbout(c, v), "Applied"), 3) })
			all := notesAbout(t, v, obj)
			require.NotContains(t, all, "data.farewell", tt.reason)
			require.NotContains(t, all, "extra", tt.reason)
			require.Equal(t, tt.told != "", strings.Contains(all, "ChangeReverted"), "%s:\n%s", tt.reason, all)
		})
	}
}

// TestEventsOfAnEditAndANewManifestWhileAway: no watch saw the edit, and yet it is reported. It
// is not parallel because it restarts the operator.
func TestEventsOfAnEditAndANewManifestWhileAway(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, page("hello", "goodbye"))
	v := awaitReady(t, ns)
	obj := declaredObject(t, ns, page("hello", "goodbye"), "ConfigMap", "page")
	stopOperator(t)
	require.NoError(t, mergePatch(obj, `{"data":{"greeting":"hi"}}`))
	setManifest(t, ns, page("hello", "so-long"))
	startOperator(t)
	awaitData(t, obj, map[string]any{"greeting": "hello", "farewell": "so-long"})
	requireTold(t, v, obj, []string{`reverted data.greeting to "hello"; "person" had set it to "hi"`}, nil)
	require.NotContains(t, notesAbout(t, v, obj), "data.farewell")
}

// TestEventsOfAnEditWhileTheManifestIsUnreadable: it is not reverted, reported once, and reverted with
// the next manifest that can be read.
func TestEventsOfAnEditWhileTheManifestIsUnreadable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ broken, reason, fixed string }{
		"invalid":    {"nonsense", v1alpha1.ReasonManifestInvalid, page("hello", "so-long")},
		"empty":      {"# nothing\n", v1alpha1.ReasonManifestEmpty, page("hello", "so-long")},
		"taken back": {"nonsense", v1alpha1.ReasonManifestInvalid, page("hello", "goodbye")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, page("hello", "goodbye"))
			v := awaitReady(t, ns)
			obj := declaredObject(t, ns, page("hello", "goodbye"), "ConfigMap", "page")
			setManifest(t, ns, tt.broken)
			awaitNotReady(t, ns, tt.reason)
			mark := auditMark(t)
			require.NoError(t, mergePatch(obj, `{"data":{"greeting":"mine"}}`))
			found := `data.greeting is "mine" and should be "hello", set by "person". It is not reverted: nothing is reverted until the manifest can be read`
			awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", found)
			awaitCondition(t, ns, drifts(metav1.ConditionTrue, v1alpha1.ReasonDriftDetected), found)
			awaitNotReady(t, ns, tt.reason)
			require.Equal(t, v1alpha1.ObjectDrifted, entry(t, getVidraResource(t, ns), "ConfigMap", "page").State)
			require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Writes(), "what it should be is not known")

			setManifest(t, ns, tt.fixed)
			awaitReady(t, ns)
			awaitCondition(t, ns, drifts(metav1.ConditionFalse, v1alpha1.ReasonInSync))
			requireTold(t, v, obj, []string{`reverted data.greeting to "hello"; "person" had set it to "mine"`}, nil)
			require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "DriftDetected")))
		})
	}
}

// TestEventsOfASuspensionWhileTheManifestIsInvalid: who pauses meanwhile is answered.
func TestEventsOfASuspensionWhileTheManifestIsInvalid(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, "nonsense")
	v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid)
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
	awaitEvent(t, v, corev1.EventTypeNormal, "Suspended", "Suspend")
	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
	awaitEvent(t, v, corev1.EventTypeNormal, "Resumed", "Suspend")
}

// TestEventsOfALostLabel: the label is not all that was changed.
func TestEventsOfALostLabel(t *testing.T) {
	t.Parallel()
	const label = "restored the label managed-by=vidra"
	tests := map[string]struct {
		reason, edit string
		told         []string
	}{
		"changed": {
			reason: "another tool claims the object, and has values of its own",
			edit:   `{"metadata":{"labels":{"managed-by":"helm"}},"data":{"greeting":"mine"}}`,
			told:   []string{label, `to "vidra"; "person" had set it to "helm"`, `everted data.greeting to "hello"; "person" had set it to "mine"`},
		},
		"removed": {
			reason: "who removes a field owns nothing",
			edit:   `{"metadata":{"labels":null},"data":{"greeting":null}}`,
			told:   []string{label, `estored data.greeting to "hello"`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, page("hello", "goodbye"))
			v := awaitReady(t, ns)
			obj := declaredObject(t, ns, page("hello", "goodbye"), "ConfigMap", "page")
			require.NoError(t, mergePatch(obj, "%s", tt.edit), tt.reason)
			awaitInOrder(t, ns, obj)
			requireTold(t, v, obj, tt.told, nil)
			require.NotContains(t, notesAbout(t, v, obj), "farewell", tt.reason)
		})
	}
}

// TestEventsOfADeletion costs one request, although what lost its label looks the same.
func TestEventsOfADeletion(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, page("hello", "goodbye"))
	v := awaitReady(t, ns)
	obj := declaredObject(t, ns, page("hello", "goodbye"), "ConfigMap", "page")
	mark := auditMark(t)
	require.NoError(t, admin.Delete(t.Context(), obj.DeepCopy()))
	awaitInOrder(t, ns, obj)
	requireTold(t, v, obj, []string{"created it again after it had been deleted"}, nil)
	sent := requireCount(t, 1, func() requests { return operatorSince(t, mark).ObjectsIn(ns) })
	require.Len(t, sent.Only(verbIs("patch")), 1)
}

// TestEventsOfAnotherDriftWhileAway: what is not reverted after a user changed it, and changed
// besides while the operator is away, is told; what is as it was is not told again. It is
// not parallel because it restarts the operator.
func TestEventsOfAnotherDriftWhileAway(t *testing.T) {
	ns, other := newNamespace(t), newNamespace(t)
	warn := withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn})
	var about []client.Object
	for _, name := range []string{ns, other} {
		newVidraResource(t, name, page("hello", "goodbye"), warn)
		v := awaitReady(t, name)
		require.NoError(t, mergePatch(declaredObject(t, name, page("hello", "goodbye"), "ConfigMap", "page"), `{"data":{"greeting":"hi"}}`))
		awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "data.greeting")
		awaitNotReady(t, name, v1alpha1.ReasonDriftDetected, "data.greeting")
		about = append(about, v)
	}
	stopOperator(t)
	require.NoError(t, mergePatch(declaredObject(t, ns, page("hello", "goodbye"), "ConfigMap", "page"), `{"data":{"farewell":"so long"}}`))
	startOperator(t)
	awaitEvent(t, about[0], corev1.EventTypeWarning, "DriftDetected", "Detect", "data.greeting", "data.farewell")
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.farewell")
	awaitSilence(t)
	require.Equal(t, 2, sum(withReason(eventsAbout(t, about[0]), "DriftDetected")))
	require.Equal(t, 1, sum(withReason(eventsAbout(t, about[1]), "DriftDetected")), "nothing is new")
}

// TestEventsOfAStopWhileApplying: an operator that is stopped in the middle of a first
// apply, and the one after it, together report what was created, and nothing else. It is not
// parallel because it restarts the operator.
func TestEventsOfAStopWhileApplying(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	const many = 200
	manifest := func(greeting string) string {
		var documents []string
		for i := range many {
			documents = append(documents, configMap(fmt.Sprintf("page-%d", i), greeting))
		}
		return manifests(documents...)
	}
	written := func(t require.TestingT, ns, greeting string) int {
		list := &corev1.ConfigMapList{}
		require.NoError(t, admin.List(context.Background(), list, client.InNamespace(ns), client.MatchingLabels{"managed-by": "vidra"}))
		n := 0
		for _, item := range list.Items {
			if item.Data["greeting"] == greeting {
				n++
			}
		}
		return n
	}
	ns := newNamespace(t)
	stopOperator(t)
	proxy, through := proxied(t)
	newVidraResource(t, ns, manifest("hello"))
	v := getVidraResource(t, ns)
	// One object keeps each apply from ending before it is stopped, however late that is.
	last := faultproxy.Match{Verb: "patch", Namespace: ns, Name: fmt.Sprintf("page-%d", many-1)}
	held := proxy.Inject(last, faultproxy.Stall())
	running := startAnother(t, through)
	for round, greeting := range []string{"hello", "changed"} {
		setManifest(t, ns, manifest(greeting))
		require.EventuallyWithT(t, func(c *assert.CollectT) { require.Greater(c, written(c, ns, greeting), many/8) }, patience, time.Millisecond)
		require.NoError(t, running.Stop(stopTimeout))
		n := written(t, ns, greeting)
		require.Less(t, n, many, "it was stopped in the middle")
		t.Logf("%d of %d were written at the stop", n, many)
		held.Remove()
		running = startAnother(t, through)
		awaitReady(t, ns)
		awaitSilence(t)
		created, changed := 0, 0
		for _, e := range withReason(eventsAbout(t, v), "Applied") {
			var a, b int
			_, err := fmt.Sscanf(e.Note, "Applied the manifest: %d created, %d changed", &a, &b)
			require.NoError(t, err)
			created, changed = created+a*occurrences(e), changed+b*occurrences(e)
		}
		require.Equal(t, many, created)
		require.Equal(t, many*round, changed)
		held = proxy.Inject(last, faultproxy.Stall())
	}
	require.NoError(t, running.Stop(stopTimeout))
	startOperator(t) // which removes what is left
}

// TestEventsOfARemovalThatWaits: an object is told to be removed when it is gone, also by
// an operator that did not delete it. It is not parallel because it restarts the operator.
func TestEventsOfARemovalThatWaits(t *testing.T) {
	ns := newNamespace(t)
	held := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: held\n  finalizers: [example.com/wait]\n"
	newVidraResource(t, ns, manifests(configMap("stays", "hello"), configMap("goes", "hello"), held))
	v := awaitReady(t, ns)
	obj := declaredObject(t, ns, held, "ConfigMap", "held")
	t.Cleanup(func() { _ = mergePatch(obj, `{"metadata":{"finalizers":null}}`) }) // it is gone if all went well
	setManifest(t, ns, configMap("stays", "hello"))
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Removed ConfigMap "+ns+"/goes")
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "is being deleted")
	awaitSilence(t)
	require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "Pruned")), "/held is there")

	stopOperator(t)
	require.NoError(t, mergePatch(obj, `{"metadata":{"finalizers":null}}`))
	awaitGone(t, obj)
	startOperator(t)
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Removed ConfigMap "+ns+"/held")
	awaitReady(t, ns)
	require.Equal(t, 2, sum(withReason(eventsAbout(t, v), "Pruned")))
}
