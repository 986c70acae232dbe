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

	"github.com/vidra-operator/vidra/e2e/suite"
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
	startWebhook(t, ns, false, func(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
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
