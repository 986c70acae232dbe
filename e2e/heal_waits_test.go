package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// promptHeal is how long an edit stands at most while other objects wait, also on a busy machine. The API server
	// waits 20 s for the webhooks of these tests.
	promptHeal = 8 * time.Second
	// promptHeals is how often an object is edited meanwhile: so often that it is contended.
	promptHeals = 8
)

// stalledWebhook is a webhook that does not answer requests of the operator about some objects until it is released.
type stalledWebhook struct {
	// asked receives a value for each of these requests.
	asked   chan struct{}
	release func()
}

// stallWrites starts a webhook that stalls about the objects of a namespace whose names have a prefix.
func stallWrites(t *testing.T, ns, prefix string) *stalledWebhook {
	t.Helper()
	released := make(chan struct{})
	w := &stalledWebhook{asked: make(chan struct{}, 1000), release: sync.OnceFunc(func() { close(released) })}
	startWebhookOn(t, []string{"configmaps", "secrets"}, ns, false, func(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.UserInfo.Username == operatorUser && strings.HasPrefix(r.Name, prefix) {
			select {
			case w.asked <- struct{}{}:
			default:
			}
			select {
			case <-released:
			case <-ctx.Done():
			}
		}
		return nil
	})
	t.Cleanup(w.release)
	return w
}

// requireAsked waits until the webhook stalls n requests.
func (w *stalledWebhook) requireAsked(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-w.asked:
		case <-time.After(patience):
			require.Fail(t, "the operator sends no request that the webhook stalls")
		}
	}
}

// TestHealsWaitForNoOtherObject edits an object while others of its VidraResource wait for a webhook that does not
// answer: each edit is reverted and reported at once.
func TestHealsWaitForNoOtherObject(t *testing.T) {
	t.Parallel()
	many := suite.Size(40, 4000)
	with := func(n int, greeting string) string {
		all := []string{configMap("other", "hello")}
		for i := range n {
			all = append(all, configMap(fmt.Sprintf("slow-%d", i), greeting))
		}
		return manifests(all...)
	}
	cases := map[string]struct {
		reason string
		first  string
		// stall has the operator write objects that the webhook stalls.
		stall func(t *testing.T, ns string)
		// waits is how many requests wait at least.
		waits int
	}{
		"Heal": {"The heal of another object waits.", with(1, "hello"), func(t *testing.T, ns string) {
			t.Helper()
			require.NoError(t, mergePatch(declaredObject(t, ns, with(1, "hello"), "ConfigMap", "slow-0"), `{"data":{"greeting":"mine"}}`))
		}, 1},
		"Apply": {"A changed object waits.", with(1, "hello"), func(t *testing.T, ns string) {
			t.Helper()
			setManifest(t, ns, with(1, "hi"))
		}, 1},
		"ApplyOfMany": {"Many new objects wait.", with(0, ""), func(t *testing.T, ns string) {
			t.Helper()
			setManifest(t, ns, with(many, "hello"))
		}, 4},
		"Removal": {"Objects that left the manifest wait.", with(20, "hello"), func(t *testing.T, ns string) {
			t.Helper()
			setManifest(t, ns, with(0, ""))
		}, 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tc.first)
			v := awaitReady(t, ns)
			w := stallWrites(t, ns, "slow-")
			tc.stall(t, ns)
			w.requireAsked(t, tc.waits)
			other := declaredObject(t, ns, tc.first, "ConfigMap", "other")
			mark := auditMark(t)
			for i := range promptHeals {
				took := healTime(t, other, i)
				t.Logf("reverted after %s", took)
				require.Less(t, took, promptHeal, tc.reason)
			}
			writes := operatorSince(t, mark).On("configmaps", ns, "other")
			require.Len(t, writes, promptHeals, "one PATCH each: %s", writes)
			awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", `data.greeting to "hello"`)
			w.release()
			await(t, func(c *assert.CollectT) {
				drift := getVidraResource(c, ns).Status.Drift
				require.NotNil(c, drift)
				require.GreaterOrEqual(c, drift.Heals, int64(promptHeals), "none is lost")
			})
			awaitReady(t, ns)
		})
	}
}

// TestEditsOfWaitingObjects edits an object whose newer manifest waits for other objects of its stage, about which a webhook does not answer. The
// edit is answered at once with the newer manifest, and listed like each edit.
func TestEditsOfWaitingObjects(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		edit func(t *testing.T, other *unstructured.Unstructured)
		// listed is in the history.
		listed string
	}{
		"Changed": {func(t *testing.T, other *unstructured.Unstructured) {
			t.Helper()
			require.NoError(t, mergePatch(other, `{"data":{"greeting":"mine"}}`))
		}, `data.greeting`},
		"Removed": {func(t *testing.T, other *unstructured.Unstructured) {
			t.Helper()
			require.NoError(t, mergePatch(other, `{"data":null}`))
		}, "data"},
		"Unlabelled": {func(t *testing.T, other *unstructured.Unstructured) {
			t.Helper()
			require.NoError(t, mergePatch(other, `{"metadata":{"labels":{%q:null}}}`, v1alpha1.ManagedByLabel))
		}, v1alpha1.ManagedByLabel},
		"Deleted": {func(t *testing.T, other *unstructured.Unstructured) {
			t.Helper()
			require.NoError(t, admin.Delete(t.Context(), other))
		}, "deleted"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, slowAndOther("hello"))
			awaitReady(t, ns)
			w := stallWrites(t, ns, "slow-")
			setManifest(t, ns, slowAndOther("hi"))
			w.requireAsked(t, 4)
			other := declaredObject(t, ns, slowAndOther("hello"), "ConfigMap", "other")
			mark := auditMark(t)
			tc.edit(t, other)
			cluster.AwaitObject(t, promptHeal, other, func(c *assert.CollectT) {
				live := &corev1.ConfigMap{}
				require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(other), live))
				require.Equal(c, map[string]string{"greeting": "hi"}, live.Data)
				require.Equal(c, v1alpha1.ManagedByValue, live.Labels[v1alpha1.ManagedByLabel])
			})
			require.NoError(t, mergePatch(other, `{"data":{"greeting":"mine again"}}`))
			cluster.AwaitObject(t, promptHeal, other, func(c *assert.CollectT) { require.Equal(c, "hi", greeting(c, other)) }, "edits of it are reverted from now on")
			sent := len(operatorSince(t, mark).On("configmaps", ns, "other").Writes())
			w.release()
			v := awaitReady(t, ns)
			require.Len(t, operatorSince(t, mark).On("configmaps", ns, "other").Writes(), sent, "its turn finds it applied")
			await(t, func(c *assert.CollectT) {
				listed := historyOf(getVidraResource(c, v.Name).Status, "other")
				require.Len(c, listed, 2, "%v", listed)
				require.Contains(c, listed[1].Message, tc.listed)
			})
		})
	}
}

// slowAndOther is a manifest with an object behind more objects than a reconcile applies at a time.
func slowAndOther(greeting string) string {
	var all []string
	for i := range 40 {
		all = append(all, configMap(fmt.Sprintf("slow-%d", i), greeting))
	}
	return manifests(append(all, configMap("other", greeting))...)
}

// TestEditsBeforeAnApply edits an object whose newer manifest waits for other objects, while its policy has edits stay. The apply overwrites the edit, which
// is listed.
func TestEditsBeforeAnApply(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, slowAndOther("hello"), func(v *v1alpha1.VidraResource) { v.Spec.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn} })
	awaitReady(t, ns)
	w := stallWrites(t, ns, "slow-")
	setManifest(t, ns, slowAndOther("hi"))
	w.requireAsked(t, 4)
	other := declaredObject(t, ns, slowAndOther("hello"), "ConfigMap", "other")
	require.NoError(t, mergePatch(other, `{"data":{"greeting":"mine"}}`))
	require.Never(t, func() bool { return greeting(t, other) != "mine" }, time.Second, 100*time.Millisecond, "it waits for its turn")
	w.release()
	awaitReady(t, ns)
	require.Equal(t, "hi", greeting(t, other))
	await(t, func(c *assert.CollectT) {
		listed := historyOf(getVidraResource(c, ns).Status, "other")
		require.Len(c, listed, 1)
		require.Contains(c, listed[0].Message, `data.greeting to "hi"`)
		require.Contains(c, listed[0].Message, "mine")
	})
}

// TestAppliesWaitForNoOtherKind writes an object behind more objects of another kind than a reconcile writes at a time, while a webhook does not answer
// about these.
func TestAppliesWaitForNoOtherKind(t *testing.T) {
	t.Parallel()
	slow := func(value string) string {
		var all []string
		for i := range 20 {
			all = append(all, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata:\n  name: slow-%d\nstringData:\n  value: %s\n", i, value))
		}
		return manifests(all...)
	}
	last := func(value string) string { return manifests(slow(value), configMap("other", value)) }
	for name, tc := range map[string]struct{ first, then, other string }{
		"New":     {configMap("first", "hello"), manifests(configMap("first", "hello"), last("hi")), "hi"},
		"Changed": {last("hello"), last("hi"), "hi"},
		"Removed": {manifests(configMap("other", "hello"), slow("hello"), configMap("first", "hello")), configMap("first", "hello"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tc.first)
			awaitReady(t, ns)
			w := stallWrites(t, ns, "slow-")
			setManifest(t, ns, tc.then)
			w.requireAsked(t, 4)
			other := declaredObject(t, ns, configMap("other", ""), "ConfigMap", "other")
			cluster.AwaitObject(t, promptHeal, other, func(c *assert.CollectT) {
				live := &corev1.ConfigMap{}
				require.NoError(c, client.IgnoreNotFound(admin.Get(t.Context(), client.ObjectKeyFromObject(other), live)))
				require.Equal(c, tc.other, live.Data["greeting"])
			})
			w.release()
			awaitReady(t, ns)
		})
	}
}

// newSlowAndQuiet creates VidraResources with objects in one namespace, whose writes a test stalls, and one more in another. They are Ready.
func newSlowAndQuiet(t *testing.T, slow, objects int) (ns, quiet string, nameOf, manifestOf func(i int) string) {
	t.Helper()
	ns, quiet = newNamespace(t), newNamespace(t)
	manifestOf = func(i int) string {
		var all []string
		for n := range objects {
			all = append(all, configMap(fmt.Sprintf("slow-%d-%d", i, n), "hello"))
		}
		return manifests(all...)
	}
	nameOf = func(i int) string { return fmt.Sprintf("%s-%d", ns, i) }
	for i := range slow {
		newVidraResource(t, ns, manifestOf(i), suite.Named(nameOf(i)))
	}
	newVidraResource(t, quiet, configMap("other", "hello"))
	for i := range slow {
		awaitReady(t, nameOf(i))
	}
	awaitReady(t, quiet)
	return ns, quiet, nameOf, manifestOf
}

// TestHealsWaitForNoOtherVidraResource edits an object while more VidraResources than there are workers wait for a
// webhook that does not answer.
func TestHealsWaitForNoOtherVidraResource(t *testing.T) {
	t.Parallel()
	const slow, objects = 10, 6
	ns, quiet, nameOf, manifestOf := newSlowAndQuiet(t, slow, objects)
	w := stallWrites(t, ns, "slow-")
	for i := range slow {
		if i%2 == 0 { // half of them apply, the others heal
			setManifest(t, nameOf(i), strings.ReplaceAll(manifestOf(i), "hello", "hi"))
			continue
		}
		editEach(t, declared(t, ns, manifestOf(i)), `{"data":{"greeting":"mine"}}`)
	}
	w.requireAsked(t, slow/2*objects)
	other := declaredObject(t, quiet, configMap("other", "hello"), "ConfigMap", "other")
	for i := range promptHeals {
		took := healTime(t, other, i)
		t.Logf("reverted after %s", took)
		require.Less(t, took, promptHeal)
	}
	w.release()
	for i := range slow {
		awaitReady(t, nameOf(i))
	}
}

// TestAppliesWaitForNoOtherVidraResource applies a new and a changed VidraResource while more VidraResources than there are workers wait for
// a webhook that does not answer.
func TestAppliesWaitForNoOtherVidraResource(t *testing.T) {
	t.Parallel()
	const slow, objects = 12, 4
	ns, quiet, nameOf, manifestOf := newSlowAndQuiet(t, slow, objects)
	applied := func(greeting string) time.Duration {
		began, fresh := time.Now(), newNamespace(t)
		setManifest(t, quiet, configMap("other", greeting))
		newVidraResource(t, fresh, configMap("new", greeting))
		awaitReady(t, fresh)
		awaitReady(t, quiet)
		return time.Since(began)
	}
	before := applied("good morning")
	w := stallWrites(t, ns, "slow-")
	for i := range slow {
		setManifest(t, nameOf(i), strings.ReplaceAll(manifestOf(i), "hello", "hi"))
	}
	w.requireAsked(t, slow*objects)
	took := applied("hi")
	t.Logf("applied after %s, and %s before", took, before)
	require.Less(t, took, promptHeal+2*before)
	w.release()
	for i := range slow {
		awaitReady(t, nameOf(i))
	}
}
