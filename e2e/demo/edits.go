package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/e2e/stopwatch"
	"github.com/vidra-operator/vidra/pkg/events"
)

// edit is what a person does to a managed object, as kubectl sends it.
type edit struct {
	// command that the person types.
	command string
	sample  *sample
	kind    string
	// path and field are the field that changes, in the object and as Vidra
	// names it; none for a deletion.
	path  []string
	field string
	// patch, its type and the subresource that it goes to. No patch deletes the
	// object.
	patch       string
	patchType   types.PatchType
	subresource string
	// manager is the field manager that kubectl writes with: for `kubectl scale`,
	// which names none, what the API server makes of its user agent.
	manager string
}

// edits are the four of the tour.
func (t *tour) edits() []edit {
	return []edit{
		{
			command: "kubectl --namespace web scale deployment web --replicas 5", sample: t.web, kind: "Deployment",
			path: []string{"spec", "replicas"}, field: "spec.replicas",
			patch: `{"spec":{"replicas":5}}`, patchType: types.MergePatchType, subresource: "scale", manager: "kubectl",
		},
		{
			command: "kubectl --namespace web edit configmap web-page", sample: t.web, kind: "ConfigMap",
			path: []string{"data", "index.html"}, field: `data["index.html"]`,
			patch: `{"data":{"index.html":"<h1>Under construction</h1>\n"}}`, patchType: types.StrategicMergePatchType, manager: "kubectl-edit",
		},
		{
			command: "kubectl --namespace web label --overwrite service web app=shop", sample: t.web, kind: "Service",
			path: []string{"metadata", "labels", "app"}, field: "metadata.labels.app",
			patch: `{"metadata":{"labels":{"app":"shop"}}}`, patchType: types.MergePatchType, manager: "kubectl-label",
		},
		{
			command: "kubectl --namespace web delete deployment web", sample: t.web, kind: "Deployment",
		},
	}
}

// showEdits makes the edits, one after the other.
func (t *tour) showEdits(ctx context.Context) error {
	for _, e := range t.edits() {
		if err := t.showEdit(ctx, e); err != nil {
			return fmt.Errorf("after `%s`: %w", e.command, err)
		}
	}
	return nil
}

// showEdit makes an edit and shows how long it stood and what Vidra says of it.
func (t *tour) showEdit(ctx context.Context, e edit) error {
	want, err := t.cluster.find(e.sample, e.kind)
	if err != nil {
		return err
	}
	resource, err := t.cluster.resource(want)
	if err != nil {
		return err
	}
	t.Command(e.command)
	target := stopwatch.Target{Resource: resource, Want: want, Timeout: patience}
	lap, err := target.Time(ctx, func(ctx context.Context) error { return e.make(ctx, resource, want.GetName()) })
	if err != nil {
		return err
	}
	t.Line("  %s: %s", e.describe(want, lap), t.mark(green, "reverted after "+duration(lap.Stood)))
	return t.showEditEvents(ctx, e, want)
}

// find is the object of a kind in a sample, as it stands in the cluster.
func (c *cluster) find(s *sample, kind string) (*unstructured.Unstructured, error) {
	for _, object := range c.placed(s) {
		if object.GetKind() == kind {
			return object, nil
		}
	}
	return nil, fmt.Errorf("sample %s has no %s: this tour and the samples do not fit together", s.name, kind)
}

// make sends what kubectl sends.
func (e edit) make(ctx context.Context, resource dynamic.ResourceInterface, name string) error {
	if e.patch == "" {
		return resource.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	}
	var subresources []string
	if e.subresource != "" {
		subresources = append(subresources, e.subresource)
	}
	_, err := resource.Patch(ctx, name, e.patchType, []byte(e.patch), metav1.PatchOptions{FieldManager: e.manager}, subresources...)
	return err
}

// describe says what the edit did: which field, from what to what, by whom.
func (e edit) describe(want *unstructured.Unstructured, lap stopwatch.Lap) string {
	if e.patch == "" {
		return title(want) + " deleted"
	}
	by := e.manager
	if e.subresource != "" {
		by += " through " + e.subresource
	}
	return fmt.Sprintf("%s %s -> %s by %s", e.field,
		valueAt(lap.Restored, e.path), valueAt(lap.Edited, e.path), by)
}

// valueAt is a value of an object as JSON, as Vidra writes it in Events.
func valueAt(o *unstructured.Unstructured, path []string) string {
	value, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil {
		return "?"
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "?"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// showEditEvents waits for the two Events about an edit: one on the
// VidraResource, and one on the object, where the person looks.
func (t *tour) showEditEvents(ctx context.Context, e edit, object *unstructured.Unstructured) error {
	says := []string{"deleted"}
	if e.patch != "" {
		says = []string{e.field, fmt.Sprintf("%q", e.manager)}
	}
	owner := e.sample.live
	corrected, err := t.cluster.awaitEvent(ctx,
		wantedEvent{reason: events.ReasonDriftCorrected, regarding: owner, related: object, says: says})
	if err != nil {
		return err
	}
	t.Aside("Event %s: %s", corrected.Reason, corrected.Note)
	// Its note says the same at more length; showEvents shows it.
	_, err = t.cluster.awaitEvent(ctx,
		wantedEvent{reason: events.ReasonChangeReverted, regarding: object, related: owner, says: says})
	return err
}
