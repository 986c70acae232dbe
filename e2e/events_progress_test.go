package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestEventsOfALongApply: an apply that takes long reports what failed, and how many objects are applied, before it ends,
// and its end reports nothing a second time.
//
// It is not parallel: its requests that wait for a webhook take places of the API server, which the heals of other tests miss.
func TestEventsOfALongApply(t *testing.T) {
	const many, first = 60, 20
	ns := newNamespace(t)
	// The webhook refuses page-0, and answers about so many others; the rest waits for it. ConfigMaps of
	// other clients, such as kube-root-ca.crt, do not wait.
	var allowed atomic.Int32
	more := make(chan struct{})
	rest := make(chan struct{})
	startWebhook(t, ns, false, func(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Name == "page-0" {
			return refused("page-0 is not welcome")
		}
		if !strings.HasPrefix(r.Name, "page-") {
			return nil
		}
		gate := rest
		if allowed.Add(1) < first {
			gate = more
		}
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return nil
	})
	var documents []string
	for i := range many {
		documents = append(documents, configMap(fmt.Sprintf("page-%d", i), "hello"))
	}
	newVidraResource(t, ns, manifests(documents...))
	v := getVidraResource(t, ns)
	const denied = "page-0 is not welcome"

	failed := awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", "ConfigMap "+ns+"/page-0: ", denied)
	require.Equal(t, "page-0", failed.Related.Name)
	require.Zero(t, applied(t, ns), "the apply has not ended")
	now := getVidraResource(t, ns)
	ready := condition(t, now, v1alpha1.ConditionReady)
	require.Equal(t, v1alpha1.ReasonApplyFailed, ready.Reason, "a Warning has the reason of a condition")
	require.Contains(t, ready.Message, denied)
	require.Zero(t, now.Status.ObservedGeneration)
	require.Equal(t, v1alpha1.DeployRunning, now.Status.DeployState)
	require.Contains(t, now.Status.LastError, denied)
	awaitEvent(t, v, corev1.EventTypeNormal, "Progressing", "Apply",
		fmt.Sprintf("VidraResource %s is being applied: 0 of %d objects are applied, 1 failed", ns, many))

	close(more)
	awaitEvent(t, v, corev1.EventTypeNormal, "Progressing", "Apply", fmt.Sprintf("%d of %d objects are applied, 1 failed", first-1, many))
	require.Equal(t, first-1, applied(t, ns))
	require.Empty(t, withReason(eventsAbout(t, v), "Applied"), "the apply has not ended")

	close(rest)
	awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", fmt.Sprintf("%d created, 0 changed", many-1))
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, denied)
	require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "ApplyFailed")), "the end reports it no second time")
	require.Equal(t, many-1, applied(t, ns))
	setManifest(t, ns, manifests(documents[1:]...))
	awaitEvent(t, v, corev1.EventTypeNormal, "Recovered", "Apply", "No longer the case: ConfigMap "+ns+"/page-0: ", denied)
	awaitReady(t, ns)
}

// applied returns how many ConfigMaps of a namespace Vidra has applied.
func applied(t require.TestingT, ns string) int {
	list := &corev1.ConfigMapList{}
	require.NoError(t, admin.List(context.Background(), list, client.InNamespace(ns), client.MatchingLabels{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}))
	return len(list.Items)
}
