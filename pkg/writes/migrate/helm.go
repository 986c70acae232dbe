package migrate

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// The labels of the records of a release (helm.sh/helm, pkg/storage/driver).
const (
	helmOwner, helmOwned = "owner", "helm"
	// hiddenOwner is the value of helmOwner on records that are hidden from Helm.
	hiddenOwner = "vidra-migrate"
	helmManager = "helm"
	// managedByHelm is a label that Helm adds to each object.
	managedByHelm   = "app.kubernetes.io/managed-by"
	helmReleaseName = "meta.helm.sh/release-name"
	helmNamespace   = "meta.helm.sh/release-namespace"
	helmPolicy      = "helm.sh/resource-policy"
	// maxRelease is the size of the largest record that is read, unpacked.
	maxRelease        = 32 << 20
	deployedStatus    = "deployed"
	uninstalledStatus = "uninstalled"
)

// records are the resources that hold records: Helm uses Secrets, or ConfigMaps if HELM_DRIVER is configmap.
var records = []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("configmaps")}

// helm is a release of Helm.
type helm struct {
	c               *Client
	namespace, name string
	// revision is the number of the revision that the plan has.
	revision int
	// last is the newest revision that can be read, for an undo.
	last *release
	// flux is the HelmRelease of Flux whose labels its objects have.
	flux helmRelease
}

// Helm is the objects of a release of Helm.
func (c *Client) Helm(namespace, name string) Tool {
	return &helm{c: c, namespace: namespace, name: name}
}

func (h *helm) title() string       { return display.Name("release", h.namespace, h.name) + " of Helm" }
func (h *helm) origin() string      { return "Helm " + h.namespace + "/" + h.name }
func (h *helm) defaultName() string { return h.name }

func (h *helm) marks() marks {
	managers := []string{helmManager, helmController}
	if h.flux.name != "" {
		slices.Reverse(managers)
	}
	return marks{
		managers: managers, labels: []string{managedByHelm, fluxRelease, fluxReleaseNamespace},
		annotations: []string{helmReleaseName, helmNamespace}, kept: helmPolicy, keeps: "keep",
	}
}

func (h *helm) steps() (stop, end string) {
	selector := fmt.Sprintf("%s=%s,name=%s", helmOwner, hiddenOwner, h.name)
	return fmt.Sprintf("hide the records of release %s from Helm (label %s=%s), so that it upgrades, rolls back and uninstalls nothing", h.name, helmOwner, hiddenOwner),
		fmt.Sprintf("Helm does not know release %s any more. To end the migration, delete its records: `kubectl -n %s delete secrets,configmaps -l %s`", h.name, h.namespace, selector)
}

// record is a stored revision of a release.
type record struct {
	resource schema.GroupVersionResource
	name     string
	labels   map[string]string
	data     string
	version  int
}

// stored lists the records of the release, the newest one first.
func (h *helm) stored(ctx context.Context) (all []record, err error) {
	selector := fmt.Sprintf("%s in (%s,%s),name=%s", helmOwner, helmOwned, hiddenOwner, h.name)
	var refused []error
	for _, resource := range records {
		list, err := h.c.objects.Dynamic.Resource(resource).Namespace(h.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			err = fmt.Errorf("list the records of release %s in %s: %w", h.name, resource.Resource, err)
		}
		if apierrors.IsForbidden(err) { // a release has its records in one of them
			refused = append(refused, err)
			continue
		} else if err != nil {
			return nil, err
		}
		for i := range list.Items {
			u := &list.Items[i]
			data, _, _ := unstructured.NestedString(u.Object, "data", "release")
			if resource.Resource == "secrets" {
				decoded, err := base64.StdEncoding.DecodeString(data)
				if err != nil {
					continue
				}
				data = string(decoded)
			}
			version, _ := strconv.Atoi(u.GetLabels()["version"])
			all = append(all, record{resource, u.GetName(), u.GetLabels(), data, version})
		}
	}
	if len(all) == 0 && len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	slices.SortFunc(all, func(a, b record) int { return b.version - a.version })
	return all, nil
}

// release is a decoded record.
type release struct {
	Manifest    string `json:"manifest"`
	Namespace   string `json:"namespace"`
	ApplyMethod string `json:"apply_method"`
	Hooks       []struct {
		Name   string   `json:"name"`
		Kind   string   `json:"kind"`
		Events []string `json:"events"`
	} `json:"hooks"`
}

// decode decodes a record: base64 of gzip of JSON, or of JSON alone in old ones. No error quotes it.
func (r record) decode() (*release, error) {
	fault := fmt.Errorf("%s %s has no release of Helm that can be read", strings.TrimSuffix(r.resource.Resource, "s"), r.name)
	text, err := base64.StdEncoding.DecodeString(r.data)
	if err != nil {
		return nil, fault
	}
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return nil, fault
		}
		if text, err = io.ReadAll(io.LimitReader(unpacked, maxRelease)); err != nil {
			return nil, fault
		}
	}
	found := &release{}
	if json.Unmarshal(text, found) != nil {
		return nil, fault
	}
	return found, nil
}

// inNamespace is the namespace of the objects. A HelmRelease of Flux may have the records in another one.
func (h *helm) inNamespace(r *release) string { return cmp.Or(r.Namespace, h.namespace) }

// deployed returns the newest revision of the release, which is deployed.
func (h *helm) deployed(ctx context.Context) (*release, error) {
	all, err := h.stored(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		if hint := h.c.helmReleaseHint(ctx, helmRelease{h.namespace, h.name}); hint != "" {
			return nil, fmt.Errorf("%s does not exist, but %s", h.title(), hint)
		}
		return nil, fmt.Errorf("%s does not exist: `helm list -n %s` lists the releases; name the namespace with -n", h.title(), h.namespace)
	}
	if err := h.judgeNewest(all[0]); err != nil {
		return nil, err
	}
	h.revision = all[0].version
	return all[0].decode()
}

// judgeNewest returns an error unless the newest revision is deployed.
func (h *helm) judgeNewest(r record) error {
	switch status := r.labels["status"]; {
	case status == deployedStatus:
		return nil
	case strings.HasPrefix(status, "pending"):
		return fmt.Errorf("%s: its newest revision %d is %s: wait until helm is done, or roll back with helm first", h.title(), r.version, status)
	case status == uninstalledStatus:
		return fmt.Errorf("%s: it was uninstalled, and its history is kept: it has no objects to move", h.title())
	default:
		return fmt.Errorf("%s: its newest revision %d is %s, so that its objects may be of several revisions: correct it with helm first", h.title(), r.version, status)
	}
}

// objects returns the objects of the manifest of a release. Hooks are left out.
func (h *helm) objects(r *release) ([]manifest.Object, error) {
	return manifest.Parse(r.Manifest, manifest.Options{Source: "manifest of release " + h.name, MaxBytes: maxRelease})
}

func (h *helm) read(ctx context.Context, p *Plan) error {
	found, err := h.deployed(ctx)
	if err != nil {
		return err
	}
	objects, err := h.objects(found)
	if err != nil {
		return err
	}
	for _, hook := range found.Hooks {
		if !slices.ContainsFunc(hook.Events, func(event string) bool { return event != "test" && event != "test-success" }) {
			p.find(Note, "hooks", "%s %s is a test, and is not moved", hook.Kind, hook.Name)
			continue
		}
		p.find(Acceptable, "hooks", "%s %s is a hook for %s: it is not moved, and does not run any more", hook.Kind, hook.Name, strings.Join(hook.Events, ", "))
	}
	var documents []*unstructured.Unstructured
	judged := map[helmRelease]bool{{}: true}
	judge := func(u *unstructured.Unstructured) {
		r := helmReleaseOf(u)
		if judged[r] {
			return
		}
		judged[r] = true
		severity, text := r.judge(h.c.helmRelease(ctx, r))
		p.find(severity, "helmRelease", "%s", text)
	}
	for _, o := range objects {
		judge(o.Unstructured)
		withoutLabels(o.Unstructured, fluxRelease, fluxReleaseNamespace)
		documents = append(documents, o.Unstructured)
	}
	p.find(Note, "values", "the manifest is the one that Helm rendered last: new versions of the chart are rendered before Vidra (docs/sources.md)")
	return h.c.planDocuments(ctx, p, h, h.inNamespace(found), "manifest of release "+h.name, documents, judge)
}

func (h *helm) state(ctx context.Context) (s state, err error) {
	all, err := h.stored(ctx)
	if err != nil {
		return s, err
	}
	for _, r := range all {
		if found, err := r.decode(); err == nil && h.last == nil {
			h.last = found
		}
		s.begun = s.begun || r.labels[helmOwner] == hiddenOwner
	}
	if s.exists = h.last != nil; s.exists && strings.Contains(h.last.Manifest, fluxRelease) {
		objects, err := h.objects(h.last)
		if err != nil {
			return s, err
		}
		for _, o := range objects {
			if r := helmReleaseOf(o.Unstructured); r.name != "" {
				h.flux = r
			}
		}
	}
	s.stopped = s.begun && !slices.ContainsFunc(all, func(r record) bool { return r.labels[helmOwner] == helmOwned })
	return s, nil
}

func (h *helm) stop(ctx context.Context, _ time.Duration) error {
	all, err := h.stored(ctx)
	if err != nil {
		return err
	}
	for _, r := range all[:min(1, len(all))] { // it may be newer than the plan
		if err := h.judgeNewest(r); err != nil && r.labels[helmOwner] == helmOwned {
			return err
		}
		if h.revision != 0 && r.version != h.revision {
			return fmt.Errorf("%s was upgraded meanwhile to revision %d: run the command again", h.title(), r.version)
		}
	}
	if h.flux.name != "" { // it may have been resumed since the plan
		if u, err := h.c.helmRelease(ctx, h.flux); err != nil || u != nil {
			if severity, text := h.flux.judge(u, err); severity == Refused {
				return errors.New(text)
			}
		}
	}
	return h.label(ctx, helmOwned, hiddenOwner)
}

func (h *helm) start(ctx context.Context) error { return h.label(ctx, hiddenOwner, helmOwned) }

// label changes the label by which Helm finds records. The newest one is hidden last and shown first, so that Helm never takes a former revision
// for the newest one. A record that was made meanwhile is an error.
func (h *helm) label(ctx context.Context, from, to string) error {
	all, err := h.stored(ctx)
	if err != nil {
		return err
	}
	if to == hiddenOwner {
		slices.Reverse(all)
	}
	for _, r := range all {
		if r.labels[helmOwner] != from {
			continue
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{helmOwner: to}}})
		if err != nil {
			return err
		}
		if _, err := h.c.objects.Dynamic.Resource(r.resource).Namespace(h.namespace).Patch(ctx, r.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: insight.FieldManager}); err != nil {
			return fmt.Errorf("label %s %s, a record of release %s: %w", r.resource.Resource, r.name, h.name, object.WithoutValues(err, ownership.Disclosure{}))
		}
	}
	if all, err = h.stored(ctx); slices.ContainsFunc(all, func(r record) bool { return r.labels[helmOwner] == from }) {
		return fmt.Errorf("%s was upgraded meanwhile: run the command again", h.title())
	}
	return err
}

func (h *helm) restore(*v1alpha1.VidraResource, *unstructured.Unstructured, *unstructured.Unstructured) (traces, error) {
	back := traces{
		manager: helmManager, operation: metav1.ManagedFieldsOperationUpdate,
		annotations: map[string]string{helmReleaseName: h.name, helmNamespace: h.inNamespace(h.last)}, labels: map[string]string{managedByHelm: "Helm"},
	}
	if h.last.ApplyMethod == "ssa" {
		back.operation = metav1.ManagedFieldsOperationApply
	}
	if h.flux.name != "" {
		back.manager = helmController
		back.labels[fluxRelease], back.labels[fluxReleaseNamespace] = h.flux.name, h.flux.namespace
	}
	return back, nil
}
