package migrate

import (
	"bytes"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// The labels of the records of a release (helm.sh/helm, pkg/storage/driver).
const (
	helmOwner, helmOwned = "owner", "helm"
	// hiddenOwner is the value of helmOwner on records that Helm does not find any more.
	hiddenOwner = "vidra-migrate"
	helmManager = "helm"
	// managedByHelm is a label that Helm adds to each object.
	managedByHelm = "app.kubernetes.io/managed-by"
	helmRelease   = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"
	helmPolicy    = "helm.sh/resource-policy"
	// maxRelease is the size of the largest record that is read, unpacked.
	maxRelease = 32 << 20
	// fluxRelease is the label of an object that a HelmRelease of Flux installed.
	fluxRelease = "helm.toolkit.fluxcd.io/name"
)

// records are the resources that hold records: Helm uses Secrets, unless HELM_DRIVER is configmap.
var records = []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("configmaps")}

// helm is a release of Helm.
type helm struct {
	c               *Client
	namespace, name string
	// serverSide reports that Helm applied the release by server-side apply. It is known once the release was read.
	serverSide bool
}

// Helm is the objects of a release of Helm.
func (c *Client) Helm(namespace, name string) Tool {
	return &helm{c: c, namespace: namespace, name: name}
}

func (h *helm) title() string       { return display.Name("release", h.namespace, h.name) + " of Helm" }
func (h *helm) origin() string      { return "Helm " + h.namespace + "/" + h.name }
func (h *helm) defaultName() string { return h.name }

func (h *helm) marks() marks {
	operation := metav1.ManagedFieldsOperationUpdate
	if h.serverSide {
		operation = metav1.ManagedFieldsOperationApply
	}
	return marks{managers: []string{helmManager}, operation: operation, labels: []string{managedByHelm}, annotations: []string{helmRelease, helmNamespace}, kept: helmPolicy, keeps: "keep"}
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
	var faults []error
	for _, resource := range records {
		list, err := h.c.dynamic.Resource(resource).Namespace(h.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			faults = append(faults, fmt.Errorf("list the records of release %s in %s: %w", h.name, resource.Resource, err))
			continue
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
	if len(all) == 0 && len(faults) > 0 {
		return nil, errors.Join(faults...)
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
	Info struct {
		Status string `json:"status"`
	} `json:"info"`
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

// deployed returns the deployed revision of the release.
func (h *helm) deployed(ctx context.Context) (*release, error) {
	all, err := h.stored(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s does not exist: `helm list -n %s` lists the releases; name the namespace with -n", h.title(), h.namespace)
	}
	i := slices.IndexFunc(all, func(r record) bool { return r.labels["status"] == "deployed" })
	if i < 0 {
		return nil, fmt.Errorf("%s has no deployed revision: its last one is %s. Correct it with helm first", h.title(), all[0].labels["status"])
	}
	if i > 0 && strings.HasPrefix(all[0].labels["status"], "pending") {
		return nil, fmt.Errorf("%s is %s: wait until helm is done, or roll back with helm first", h.title(), all[0].labels["status"])
	}
	found, err := all[i].decode()
	if err == nil {
		h.serverSide = found.ApplyMethod == "ssa"
	}
	return found, err
}

// objects returns the objects of the manifest of a release. Hooks are not in it.
func (h *helm) objects(r *release) ([]manifest.Object, error) {
	objects, err := manifest.Parse(r.Manifest, manifest.Options{Source: "manifest of release " + h.name, MaxBytes: maxRelease})
	if err != nil {
		return nil, err
	}
	return objects, nil
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
	for _, o := range objects {
		documents = append(documents, o.Unstructured)
	}
	p.find(Note, "values", "the manifest is the one that Helm rendered last: new versions of the chart are rendered before Vidra (docs/sources.md)")
	return h.c.planDocuments(ctx, p, h, h.namespace, "manifest of release "+h.name, documents, func(live *unstructured.Unstructured) {
		if name := live.GetLabels()[fluxRelease]; name != "" {
			h.judgeFlux(ctx, p, live, name)
		}
	})
}

// judgeFlux adds a finding for a HelmRelease of Flux that would install the release again.
func (h *helm) judgeFlux(ctx context.Context, p *Plan, live *unstructured.Unstructured, name string) {
	namespace := live.GetLabels()["helm.toolkit.fluxcd.io/namespace"]
	u, err := h.c.read(ctx, "helm.toolkit.fluxcd.io/v2", "HelmRelease", namespace, name)
	suspended := false
	if u != nil {
		suspended, _, _ = unstructured.NestedBool(u.Object, "spec", "suspend")
	}
	if err == nil && (u == nil || suspended) || slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Field == "helmRelease" }) {
		return
	}
	p.find(Refused, "helmRelease", "HelmRelease %s/%s of Flux installs the release: suspend it first, with `flux -n %s suspend helmrelease %s`", namespace, name, namespace, name)
}

func (h *helm) stopped(ctx context.Context) (bool, error) {
	all, err := h.stored(ctx)
	if err != nil {
		return false, err
	}
	if i := slices.IndexFunc(all, func(r record) bool { return r.labels["status"] == "deployed" }); i >= 0 {
		if found, err := all[i].decode(); err == nil {
			h.serverSide = found.ApplyMethod == "ssa"
		}
	}
	return len(all) > 0 && !slices.ContainsFunc(all, func(r record) bool { return r.labels[helmOwner] == helmOwned }), nil
}

func (h *helm) stop(ctx context.Context, _ time.Duration) error {
	return h.label(ctx, helmOwned, hiddenOwner)
}

func (h *helm) start(ctx context.Context) error { return h.label(ctx, hiddenOwner, helmOwned) }

// label changes the label by which Helm finds records. The newest one is last, so that an interrupted run shows no former revision as the
// newest one.
func (h *helm) label(ctx context.Context, from, to string) error {
	all, err := h.stored(ctx)
	if err != nil {
		return err
	}
	if to == helmOwned {
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
		if _, err := h.c.dynamic.Resource(r.resource).Namespace(h.namespace).Patch(ctx, r.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: insight.FieldManager}); err != nil {
			return fmt.Errorf("label %s %s, a record of release %s: %w", r.resource.Resource, r.name, h.name, object.WithoutValues(err, ownership.Disclosure{}))
		}
	}
	return nil
}

func (h *helm) restore(*unstructured.Unstructured, *unstructured.Unstructured) (annotations, labels map[string]string, err error) {
	return map[string]string{helmRelease: h.name, helmNamespace: h.namespace}, map[string]string{managedByHelm: "Helm"}, nil
}
