package e2e

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestF28WebhookThatChangesOurFields has webhooks that change, at every write, what
// Vidra has just applied. Vidra does not answer that with another apply: what the
// API server made of an apply is what is expected from then on. An edit by a user
// else is answered once.
func TestF28WebhookThatChangesOurFields(t *testing.T) {
	t.Parallel()
	const most, window = 3, 3 * time.Second // writes, and the time in which they are counted
	var writes atomic.Int64
	tests := map[string]struct {
		reason string
		patch  func() string
		// unwatched says that Vidra cannot watch what the webhook makes of the object.
		unwatched bool
	}{
		"another value": {
			reason: "the webhook has the last word, every time the same",
			patch:  func() string { return `[{"op":"add","path":"/data/greeting","value":"changed"}]` },
		},
		"a new value each time": {
			reason: "an apply never finds what the last one left",
			patch: func() string {
				return fmt.Sprintf(`[{"op":"add","path":"/data/greeting","value":"changed %d"}]`, writes.Add(1))
			},
		},
		"field removed": {
			reason: "a field of ours is never there",
			patch:  func() string { return `[{"op":"replace","path":"/data","value":{"other":"x"}}]` },
		},
		"owner removed": {
			reason: "our mark is never there",
			patch:  func() string { return `[{"op":"replace","path":"/metadata/annotations","value":{"other":"x"}}]` },
		},
		"label removed": {
			reason:    "without the label no event shows what becomes of the object",
			patch:     func() string { return `[{"op":"replace","path":"/metadata/labels","value":{"other":"x"}}]` },
			unwatched: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			w := startWebhook(t, ns, true, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				if !writesTo(r, "page") {
					return nil
				}
				return patched(tt.patch())
			})
			mark := auditMark(t)
			newVidraResource(t, ns, configMap("page", "hello"))
			page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
			since := func(mark testenv.AuditMark) func() requests {
				return func() requests { return operatorSince(t, mark).On("configmaps", ns, "page").Writes() }
			}
			sent := since(mark)
			awaitStatus := func() *v1alpha1.VidraResource {
				if tt.unwatched {
					return awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "ConfigMap "+ns+"/page", "managed-by", "webhook")
				}
				awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWarned},
					"ConfigMap "+ns+"/page", "the manifest says", "mutating webhook")
				return awaitReady(t, ns)
			}
			awaitStatus()
			if tt.unwatched { // it is tried again, less and less often
				requireRetriesGetFewer(t, sent)
				w.remove(t)
				awaitReady(t, ns)
				requireInOrder(t, ns, page)
				return
			}
			require.Never(t, func() bool { return len(sent()) > most }, window, poll, tt.reason)

			sentAgain := since(auditMark(t))
			require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
			require.Never(t, func() bool { return len(sentAgain()) > most }, window, poll, tt.reason)
			v := awaitStatus()
			require.Equal(t, metav1.ConditionFalse, condition(t, v, v1alpha1.ConditionDrifted).Status)

			require.NoError(t, deleteVidraResource(t.Context(), ns))
			awaitGone(t, v)
			awaitGone(t, page)
		})
	}
}

// TestWebhookThatComesLater installs a webhook that changes a field of ours at every write, after the apply. The heal that follows an edit cannot revert
// its value: a warning names the field and the webhook, and ends with the first heal after the webhook. Further edits ask nothing again.
func TestWebhookThatComesLater(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	v := awaitReady(t, ns)
	w := startWebhook(t, ns, true, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if !writesTo(r, "page") {
			return nil
		}
		return patched(`[{"op":"add","path":"/data/greeting","value":"changed"}]`)
	})
	mark := auditMark(t)
	require.NoError(t, mergePatch(page, `{"metadata":{"labels":{"team":"web"}}}`))
	warning := []string{"ConfigMap " + ns + "/page", `data.greeting is "changed", and the manifest says "hello"`, "mutating webhook " + w.name}
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWarned}, warning...)
	awaitEvent(t, v, corev1.EventTypeWarning, "Warned", "Apply", warning...)
	asked := func() requests { return operatorSince(t, mark).On("namespaces", ns, ns) }
	require.Len(t, operatorSince(t, mark).On("configmaps", ns, "page").Writes(), 1)
	before := len(asked())
	require.NotZero(t, before, "the webhook may select the namespace by its labels")

	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	requireTold(t, v, page, []string{"data.greeting"}, nil)
	require.Len(t, asked(), before, "the same field is no news")

	w.remove(t)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine again"}}`))
	awaitInOrder(t, ns, page)
	await(t, func(c *assert.CollectT) {
		require.Nil(c, meta.FindStatusCondition(getVidraResource(c, ns).Status.Conditions, v1alpha1.ConditionWarnings), "the heal has ended it")
	})
}

// TestWebhookOfOthers has a webhook that changes a field of ours in the requests of other clients alone. The API server records no new owner: the heal names
// the client whose request it was.
func TestWebhookOfOthers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	v := awaitReady(t, ns)
	startWebhook(t, ns, true, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if !writesTo(r, "page") || r.UserInfo.Username == operatorUser {
			return nil
		}
		return patched(`[{"op":"add","path":"/data/greeting","value":"changed"}]`)
	})
	require.NoError(t, mergePatch(page, `{"metadata":{"labels":{"team":"web"}}}`))
	requireTold(t, v, page, []string{`reverted data.greeting to "hello"; "` + person + `" had set it to "changed"`}, nil)
	awaitInOrder(t, ns, page)
	require.Equal(t, person, getVidraResource(t, ns).Status.Drift.LastHeal.Manager)
}

// TestWriterOfALeftValue: the writer of a value that is not reverted is the client in whose request a webhook changed it, and not a client that changes another
// field later.
func TestWriterOfALeftValue(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	awaitReady(t, ns)
	w := startWebhook(t, ns, true, func(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if !writesTo(r, "page") || r.UserInfo.Username == operatorUser {
			return nil
		}
		return patched(`[{"op":"add","path":"/data/greeting","value":"changed"}]`)
	})
	require.NoError(t, mergePatch(page, `{"metadata":{"labels":{"team":"web"}}}`))
	drifted := metav1.Condition{Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDriftDetected}
	awaitCondition(t, ns, drifted, `data.greeting is "changed" and should be "hello", set by "`+person+`"`)
	w.remove(t)
	labels := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"front"}}}`))
	require.NoError(t, admin.Patch(t.Context(), page, labels, client.FieldOwner("labeler")))
	reconcileNow(t, ns)
	awaitCondition(t, ns, drifted, `set by "`+person+`"`)
}
