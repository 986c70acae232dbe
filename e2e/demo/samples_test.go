package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/stopwatch"
)

// samples are those that the tour applies.
var samples = os.DirFS("../../config/samples")

// tourOfNowhere is a tour of a cluster that cannot be reached.
func tourOfNowhere(t *testing.T) *tour {
	t.Helper()
	given, err := newTour(options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Samples: samples})
	require.NoError(t, err)
	return given
}

// kindIn is the object of a kind in a sample.
func kindIn(t *testing.T, s *sample, kind string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range s.objects {
		if object.GetKind() == kind {
			return object
		}
	}
	require.Failf(t, "missing", "sample %s has no %s", s.name, kind)
	return nil
}

func TestTheTourFitsTheSamples(t *testing.T) {
	given := tourOfNowhere(t)
	require.Len(t, given.web.objects, 4)
	require.Len(t, given.first.objects, 1)
	require.Len(t, given.custom.objects, 1)
	require.Len(t, given.definition, 1)
	require.Equal(t, "CustomResourceDefinition", given.definition[0].GetKind())
	require.Len(t, given.edits(), 4)
	for _, e := range given.edits() {
		object := kindIn(t, e.sample, e.kind)
		require.Contains(t, e.command, object.GetName(), "the command names the object")
		if e.patch == "" {
			continue
		}
		_, found, err := unstructured.NestedFieldNoCopy(object.Object, e.path...)
		require.NoError(t, err)
		require.True(t, found, "%s: an edit of a field that Vidra does not own is none", e.command)
		require.NotEmpty(t, e.manager)
	}
}

func TestDescribe(t *testing.T) {
	given := tourOfNowhere(t)
	restored := kindIn(t, given.web, "Deployment")
	edited := restored.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(edited.Object, int64(5), "spec", "replicas"))
	lap := stopwatch.Lap{Edited: edited, Restored: restored}
	require.Equal(t, "spec.replicas 2 -> 5 by kubectl through scale", given.edits()[0].describe(restored, lap))
	require.Equal(t, "Deployment web deleted", given.edits()[3].describe(restored, lap))

	page := kindIn(t, given.web, "ConfigMap")
	require.Equal(t, `"<h1>Hello from Vidra</h1>\n"`, valueAt(page, []string{"data", "index.html"}), "as Vidra writes it")
	require.Equal(t, "?", valueAt(page, []string{"data", "index.html", "deeper"}))
}

func TestWantedEvent(t *testing.T) {
	owner, object := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	owner.SetKind("VidraResource")
	owner.SetName("web")
	owner.SetUID("now")
	object.SetKind("Service")
	object.SetNamespace("web")
	object.SetName("web")
	wanted := wantedEvent{reason: "DriftCorrected", regarding: owner, related: object, says: []string{"spec.id", `"kubectl"`}}
	good := func() *eventsv1.Event {
		return &eventsv1.Event{
			Reason:    "DriftCorrected",
			Regarding: corev1.ObjectReference{Kind: "VidraResource", Name: "web", UID: "now"},
			Related:   &corev1.ObjectReference{Kind: "Service", Namespace: "web", Name: "web", UID: "any"},
			Note:      `reverted spec.id to 1; "kubectl" had set it to 2`,
		}
	}
	tests := map[string]struct {
		reason string
		change func(*eventsv1.Event)
		want   bool
	}{
		"wanted":       {reason: "it is the one", change: func(*eventsv1.Event) {}, want: true},
		"other reason": {reason: "another reason is another Event", change: func(e *eventsv1.Event) { e.Reason = "Applied" }},
		"earlier tour": {reason: "one of an earlier tour is of another UID", change: func(e *eventsv1.Event) { e.Regarding.UID = "then" }},
		"other object": {reason: "one about another object", change: func(e *eventsv1.Event) { e.Related.Namespace = "shop" }},
		"no object":    {reason: "one about no object", change: func(e *eventsv1.Event) { e.Related = nil }},
		"other field":  {reason: "one that names another field", change: func(e *eventsv1.Event) { e.Note = `spec.name "kubectl"` }},
		"other person": {reason: "one that names another manager", change: func(e *eventsv1.Event) { e.Note = "spec.id" }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := good()
			tt.change(e)
			require.Equal(t, tt.want, wanted.matches(e), tt.reason)
		})
	}
}
