package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// canary is a value that must not be shown, also not in part.
const canary = "hunter2"

// requireNoValue requires that neither the Events of the cluster nor the status of a
// VidraResource holds the canary.
func requireNoValue(t *testing.T, name string) {
	t.Helper()
	all := &eventsv1.EventList{}
	require.NoError(t, admin.List(context.Background(), all))
	for _, e := range all.Items {
		require.NotContains(t, fmt.Sprint(e), canary)
	}
	require.NotContains(t, fmt.Sprint(getVidraResource(t, name).Status), canary)
}

// TestEventValuesNone has every kind of message speak of values with --event-values=none:
// a heal, drift that is only reported, an object that is not adopted, and one that the API
// server refuses for a value. None is shown in Events, statuses, CloudEvents or the log.
func TestEventValuesNone(t *testing.T) {
	sink := newCloudEventSink(t)
	stopOperator(t)
	started, err := env.StartOperator(t.Context(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--event-values=none", "--cloudevents-sink=" + sink.url()},
	})
	require.NoError(t, err)
	operator = started
	t.Cleanup(func() { require.NoError(t, operator.Stop(stopTimeout)) })
	ns := newNamespace(t)
	foreign := declared(t, ns, configMap("foreign", "theirs"+canary))[0]
	require.NoError(t, admin.Create(t.Context(), foreign))
	page := declared(t, ns, configMap("page", "ours"+canary))[0]
	open := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, annotations: {infrahub.operators.com/sensitive: \"false\"}}\ndata: {greeting: ours" + canary + "}\n"
	v := newVidraResource(t, ns, open)
	awaitReady(t, ns)

	require.NoError(t, mergePatch(page, `{"data":{"greeting":%q}}`, canary+"mine"))
	awaitInOrder(t, ns, page)
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "ConfigMap "+ns+"/page", "data.greeting")
	awaitEvent(t, page, corev1.EventTypeNormal, "ChangeReverted", "Restore", "data.greeting")
	sink.await(t, "DriftCorrected", "data.greeting")

	require.NoError(t, mergePatch(v, `{"spec":{"drift":{"mode":"Warn"}}}`))
	awaitReady(t, ns) // until then an edit is reverted
	require.NoError(t, mergePatch(page, `{"data":{"greeting":%q}}`, canary+"other"))
	awaitNotReady(t, ns, v1alpha1.ReasonDriftDetected, "data.greeting")

	external := "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {type: ExternalName, externalName: \"" + canary + "!\"}\n"
	setManifest(t, ns, manifests(open, configMap("foreign", "ours"+canary), external))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "spec.externalName", "withheld")
	awaitEvent(t, v, corev1.EventTypeWarning, "AdoptionRefused", "Apply", "data.greeting")
	sink.await(t, "AdoptionRefused")
	requireNoValue(t, ns)
	require.NotContains(t, sink.everything(), canary)
	require.NotContains(t, operatorLog(t), canary)
}

// TestEventValuesIsChecked refuses a value that could mean anything.
func TestEventValuesIsChecked(t *testing.T) {
	t.Parallel()
	_, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Args: []string{"--event-values=some"}})
	require.ErrorContains(t, err, "it must be all or none")
}

// TestEnvironmentIsNotShown edits environment variables in all ways, with default
// settings: Events, status and messages name them without their values.
func TestEnvironmentIsNotShown(t *testing.T) {
	t.Parallel()
	const app = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  replicas: 1
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - name: app
        image: app:1
        env:
        - {name: PASSWORD, value: "ours` + canary + `"}
        - {name: OTHER, value: "ours` + canary + `"}
`
	ns := newNamespace(t)
	v := newVidraResource(t, ns, app)
	awaitReady(t, ns)
	deployment := declaredObject(t, ns, app, "Deployment", "app")
	const env0 = "/spec/template/spec/containers/0/env/0"
	for _, edit := range []struct{ patch, told string }{
		{`[{"op":"replace","path":"` + env0 + `/value","value":"` + canary + `theirs"}]`, `env[name="PASSWORD"].value (values withheld)`},
		{`[{"op":"remove","path":"` + env0 + `"}]`, `env[name="PASSWORD"]`},
		{`[{"op":"replace","path":"` + env0 + `/name","value":"NEW"}]`, `env[name="NEW"]`},
	} {
		require.NoError(t, jsonPatch(deployment, "%s", edit.patch))
		awaitInOrder(t, ns, deployment)
		awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", edit.told)
	}
	setManifest(t, ns, manifests(app, configMap("c", "hello"), "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: p, image: p, env: [{name: A, value: {b: "+canary+"}}]}]}\n"))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, `env[name="A"].value: expected string`)
	requireNoValue(t, ns)
}
