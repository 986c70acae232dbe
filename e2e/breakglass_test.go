package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// annotate sets the break-glass annotations of an object.
func annotate(t *testing.T, obj *unstructured.Unstructured, until, reason string) {
	t.Helper()
	require.NoError(t, mergePatch(obj, `{"metadata":{"annotations":{%q:%q,%q:%q}}}`,
		v1alpha1.BreakGlassUntilAnnotation, until, v1alpha1.BreakGlassReasonAnnotation, reason))
}

// awaitAnswer waits for the answer to break-glass annotations: an Event at the object and
// one at the VidraResource, whose inventory has it, too.
func awaitAnswer(t *testing.T, owner string, obj *unstructured.Unstructured, state v1alpha1.BreakGlassState, parts ...string) *v1alpha1.BreakGlassStatus {
	t.Helper()
	kind := corev1.EventTypeNormal
	if state == v1alpha1.BreakGlassIgnored {
		kind = corev1.EventTypeWarning
	}
	awaitEvent(t, obj, kind, "BreakGlass"+string(state), "Exempt", parts...)
	v := getVidraResource(t, owner)
	awaitEvent(t, v, kind, "BreakGlass"+string(state), "Exempt", parts...)
	var answer *v1alpha1.BreakGlassStatus
	await(t, func(c *assert.CollectT) {
		answer = entry(c, getVidraResource(c, owner), obj.GetKind(), obj.GetName()).BreakGlass
		require.NotNil(c, answer)
		require.Equal(c, state, answer.State, answer.Message)
	})
	return answer
}

// acceptNoBreakGlass ends all break-glass of the objects of a VidraResource.
func acceptNoBreakGlass(spec *v1alpha1.VidraResourceSpec) {
	if spec.Drift == nil {
		spec.Drift = &v1alpha1.DriftPolicy{}
	}
	spec.Drift.MaxBreakGlass = &metav1.Duration{}
}

// in is a time from now as an annotation has it.
func in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }

// TestBreakGlass has one object exempt for a while. Others are not. A changed manifest is
// applied, and the exemption goes on. When the time is over, what was changed is said and
// reverted.
func TestBreakGlass(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := manifests(configMap("page", "hello"), configMap("other", "hello"))
	newVidraResource(t, ns, manifest)
	v := awaitReady(t, ns)
	page, other := declaredObject(t, ns, manifest, "ConfigMap", "page"), declaredObject(t, ns, manifest, "ConfigMap", "other")
	annotate(t, page, in(time.Hour), "incident 42")
	awaitAnswer(t, ns, page, v1alpha1.BreakGlassAccepted, "incident 42")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"hotfix"}}`))
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "data.greeting", "incident 42")
	require.NoError(t, mergePatch(other, `{"data":{"greeting":"edited"}}`))
	awaitInOrder(t, ns, other)

	setManifest(t, ns, manifests(configMap("page", "hello, world"), configMap("other", "hello, world")))
	await(t, func(c *assert.CollectT) {
		require.Equal(c, "hello, world", greeting(c, other))
		require.Equal(c, "hello, world", greeting(c, page), "the author's new manifest does not wait")
	})
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", `reverted data.greeting to "hello, world"; "person" had set it to "hotfix"`)
	awaitReady(t, ns)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"another hotfix"}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "another hotfix", "incident 42")
	require.Equal(t, "another hotfix", greeting(t, page))

	until := time.Now().Add(4 * time.Second) // it is over sooner than was said at first
	annotate(t, page, until.Format(time.RFC3339), "incident 42")
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello, world", greeting(c, page)) })
	require.False(t, time.Now().Before(until.Truncate(time.Second)))
	awaitReady(t, ns)
	awaitAnswer(t, ns, page, v1alpha1.BreakGlassEnded, "its time is over")
}

// TestBreakGlassIsAnswered annotates an object in ways that are accepted, cut and ignored.
// The answer is told at once, and what is ignored is reverted.
func TestBreakGlassIsAnswered(t *testing.T) {
	t.Parallel()
	maximum := func(d time.Duration) func(*v1alpha1.DriftPolicy) {
		return func(p *v1alpha1.DriftPolicy) { p.MaxBreakGlass = &metav1.Duration{Duration: d} }
	}
	tests := map[string]struct {
		reason     string
		policy     func(*v1alpha1.DriftPolicy)
		until, why string
		state      v1alpha1.BreakGlassState
		part       string
		// cut is how long the exemption is, if that is not what was asked for.
		cut      time.Duration
		manifest string
		putBack  bool
	}{
		"Accepted":  {reason: "what is asked for", until: in(time.Hour), why: "incident 42", state: v1alpha1.BreakGlassAccepted, part: "incident 42"},
		"Default":   {reason: "24 hours unless the spec names another maximum", until: "2099-01-31T18:00:00Z", why: "x", state: v1alpha1.BreakGlassAccepted, part: "cut to the maximum of 24h0m0s", cut: 24 * time.Hour},
		"Cut":       {reason: "the author says otherwise", policy: maximum(time.Hour), until: in(9 * time.Hour), why: "x", state: v1alpha1.BreakGlassAccepted, part: "cut to the maximum of 1h0m0s", cut: time.Hour},
		"Longer":    {reason: "also the other way", policy: maximum(99 * time.Hour), until: in(48 * time.Hour), why: "x", state: v1alpha1.BreakGlassAccepted, part: "(x)"},
		"Warn":      {reason: "what is not reverted anyway may be again one day", policy: func(p *v1alpha1.DriftPolicy) { p.Mode = v1alpha1.DriftWarn }, until: in(time.Hour), why: "x", state: v1alpha1.BreakGlassAccepted, part: "(x)"},
		"Closed":    {reason: "the author accepts none", policy: maximum(0), until: in(time.Hour), why: "x", state: v1alpha1.BreakGlassIgnored, part: "spec.drift.maxBreakGlass", putBack: true},
		"Malformed": {reason: "a duration is no time", until: "1h", why: "x", state: v1alpha1.BreakGlassIgnored, part: `RFC 3339, such as 2026-01-31T18:00:00Z: "1h"`, putBack: true},
		"NoReason":  {reason: "who exempts an object says why", until: in(time.Hour), why: " ", state: v1alpha1.BreakGlassIgnored, part: v1alpha1.BreakGlassReasonAnnotation, putBack: true},
		"Past":      {reason: "it would end before it began", until: in(-time.Hour), why: "x", state: v1alpha1.BreakGlassIgnored, part: "is in the past", putBack: true},
		"InManifest": {
			reason: "an author has spec.drift and spec.suspend", until: in(time.Hour), why: "x", state: v1alpha1.BreakGlassIgnored, part: "the manifest sets the annotation", putBack: true,
			manifest: "  annotations: {" + v1alpha1.BreakGlassUntilAnnotation + `: "` + in(2*time.Hour) + `", ` + v1alpha1.BreakGlassReasonAnnotation + ": because}\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			manifest := configMap("page", "hello")
			manifest = strings.Replace(manifest, "metadata:\n", "metadata:\n"+tt.manifest, 1)
			policy := v1alpha1.DriftPolicy{}
			if tt.policy != nil {
				tt.policy(&policy)
			}
			newVidraResource(t, ns, manifest, withDrift(policy))
			v := awaitReady(t, ns)
			page := declaredObject(t, ns, manifest, "ConfigMap", "page")
			annotate(t, page, tt.until, tt.why)
			answer := awaitAnswer(t, ns, page, tt.state, tt.part)
			switch {
			case tt.cut > 0:
				require.Equal(t, tt.cut, answer.Until.Sub(answer.Since.Time), tt.reason)
			case tt.state == v1alpha1.BreakGlassAccepted:
				require.Equal(t, tt.until, answer.Until.UTC().Format(time.RFC3339), tt.reason)
			}
			require.NoError(t, mergePatch(page, `{"data":{"greeting":"hotfix"}}`))
			if tt.putBack {
				await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, page)) })
				awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.greeting", tt.part)
				return
			}
			awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting")
			require.Equal(t, "hotfix", greeting(t, page))
		})
	}
}

// TestBreakGlassHasAMaximum renews break-glass until the maximum is used up. A further
// request is ignored, also by an operator that was started in between.
func TestBreakGlassHasAMaximum(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), withDrift(v1alpha1.DriftPolicy{MaxBreakGlass: &metav1.Duration{Duration: 20 * time.Second}}))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	annotate(t, page, in(time.Hour), "first")
	first := awaitAnswer(t, ns, page, v1alpha1.BreakGlassAccepted, "first, cut to the maximum of 20s")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "first")
	killOperator(t)
	annotate(t, page, in(time.Hour), "second")
	startOperator(t)
	second := awaitAnswer(t, ns, page, v1alpha1.BreakGlassAccepted, "second")
	require.Equal(t, first.Since.UTC(), second.Since.UTC(), "the restart has not forgotten when it began")
	require.Equal(t, first.Until.UTC(), second.Until.UTC())
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, page)) })
	require.False(t, time.Now().Before(first.Until.Time))
	awaitAnswer(t, ns, page, v1alpha1.BreakGlassEnded, "the maximum of 20s")
	annotate(t, page, in(time.Hour), "third")
	awaitAnswer(t, ns, page, v1alpha1.BreakGlassIgnored, "is used up")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, page)) })
}

// TestBreakGlassEnds has one object left alone until its annotation is removed, or
// its time is over, also where it was deleted meanwhile.
func TestBreakGlassEnds(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := manifests(configMap("removed", "hello"), configMap("deleted", "hello"))
	newVidraResource(t, ns, manifest)
	v := awaitReady(t, ns)
	removed, deleted := declaredObject(t, ns, manifest, "ConfigMap", "removed"), declaredObject(t, ns, manifest, "ConfigMap", "deleted")
	until := time.Now().Add(25 * time.Second) // what is looked at until then takes a second or two
	annotate(t, removed, time.Now().Add(time.Hour).Format(time.RFC3339), "incident 42")
	annotate(t, deleted, until.Format(time.RFC3339), "incident 43")
	require.NoError(t, mergePatch(removed, `{"data":{"greeting":"hotfix"}}`))
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "data.greeting", "incident 42")
	require.NoError(t, mergePatch(deleted, `{"data":{"greeting":"hotfix"}}`))
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "data.greeting", "incident 43")
	require.NoError(t, admin.Delete(t.Context(), deleted.DeepCopy()))
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "it was deleted", "incident 43")

	changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Interval = &metav1.Duration{Duration: time.Hour} })
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "it was deleted", "incident 43")

	require.NoError(t, mergePatch(removed, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.BreakGlassUntilAnnotation))
	awaitInOrder(t, ns, removed)
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", `reverted data.greeting to "hello"; "person" had set it to "hotfix"`)
	awaitInOrder(t, ns, deleted)
	require.False(t, time.Now().Before(until.Truncate(time.Second)))
}

// TestBreakGlassNeedsAReason: an annotation that does not count is said with the
// edit that was reverted all the same.
func TestBreakGlassNeedsAReason(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	v := awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	require.NoError(t, mergePatch(page, `{"metadata":{"annotations":{%q:"tomorrow"}},"data":{"greeting":"hotfix"}}`, v1alpha1.BreakGlassUntilAnnotation))
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.greeting", "RFC 3339", "tomorrow")
	awaitInOrder(t, ns, page)
}

// TestBreakGlassWithoutTheLabel replaces an object by one without the label by which it is watched, as of a file that was exported or comes from a repository.
// Its annotations count: the request, and the end of an exemption.
func TestBreakGlassWithoutTheLabel(t *testing.T) {
	t.Parallel()
	t.Run("Request", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newVidraResource(t, ns, configMap("page", "hello"), func(v *v1alpha1.VidraResource) { v.Spec.Interval = &metav1.Duration{Duration: 10 * time.Second} })
		v := awaitReady(t, ns)
		page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
		replaced := page.DeepCopy()
		replaced.SetLabels(nil)
		replaced.SetAnnotations(map[string]string{v1alpha1.BreakGlassUntilAnnotation: in(time.Hour), v1alpha1.BreakGlassReasonAnnotation: "incident 42"})
		require.NoError(t, unstructured.SetNestedField(replaced.Object, "hotfix", "data", "greeting"))
		require.NoError(t, admin.Update(t.Context(), replaced, client.FieldOwner(person)))
		awaitEvent(t, v, corev1.EventTypeNormal, "BreakGlassAccepted", "Exempt", "incident 42")
		awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting", "managed-by", "incident 42")
		require.Equal(t, "hotfix", greeting(t, page))
		require.NoError(t, mergePatch(page, `{"metadata":{"annotations":null}}`)) // no watch shows it
		awaitInOrder(t, ns, page)
		awaitAnswer(t, ns, page, v1alpha1.BreakGlassEnded, "its annotations are gone")
	})
	t.Run("End", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newVidraResource(t, ns, configMap("page", "hello"))
		awaitReady(t, ns)
		page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
		annotate(t, page, in(time.Hour), "incident 42")
		awaitAnswer(t, ns, page, v1alpha1.BreakGlassAccepted, "incident 42")
		require.NoError(t, mergePatch(page, `{"metadata":{"labels":null,"annotations":null},"data":{"greeting":"hotfix"}}`))
		awaitInOrder(t, ns, page)
		awaitReady(t, ns)
		awaitAnswer(t, ns, page, v1alpha1.BreakGlassEnded, "its annotations are gone")
	})
}
