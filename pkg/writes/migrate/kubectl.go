package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/export"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const (
	kubectlManager = "kubectl"
	// kubectlUpdater is the field manager of kubectl apply without --server-side.
	kubectlUpdater = "kubectl-client-side-apply"
	// applySet is the label of an object in an ApplySet, by which kubectl apply --prune knows it.
	applySet = "applyset.kubernetes.io/part-of"
)

// kubectl is the objects that kubectl apply wrote.
type kubectl struct {
	c                   *Client
	namespace, selector string
	clusterScoped       bool
}

// Kubectl is the objects of a namespace that kubectl apply wrote and a selector selects, with clusterScoped also those without a namespace.
func (c *Client) Kubectl(namespace, selector string, clusterScoped bool) (Tool, error) {
	parsed, err := labels.Parse(selector)
	if err != nil || parsed.Empty() {
		return nil, fmt.Errorf("-l %q selects no labels: name some, such as app=web", selector)
	}
	return &kubectl{c, namespace, parsed.String(), clusterScoped}, nil
}

func (k *kubectl) title() string {
	return fmt.Sprintf("the objects of kubectl with labels %s in namespace %s", k.selector, k.namespace)
}
func (k *kubectl) origin() string      { return "kubectl " + k.namespace + " " + k.selector }
func (k *kubectl) defaultName() string { return k.namespace }

func (k *kubectl) marks() marks {
	return marks{
		managers:    []string{kubectlUpdater, kubectlManager, "kubectl-last-applied"},
		annotations: []string{corev1.LastAppliedConfigAnnotation}, labels: []string{applySet},
	}
}

func (k *kubectl) steps() (stop, end string) {
	return "", "Do not run kubectl apply for these objects any more: change the manifest of the VidraResource"
}

func (k *kubectl) state(context.Context) (state, error) { return state{exists: true}, nil }

func (k *kubectl) stop(context.Context, time.Duration) error { return nil }

func (k *kubectl) start(context.Context) error { return nil }

func (k *kubectl) read(ctx context.Context, p *Plan) error {
	found, err := k.c.objects.Select(ctx, export.Query{Namespace: k.namespace, Selector: k.selector, ClusterScoped: k.clusterScoped})
	if err != nil {
		return err
	}
	for _, remark := range found.Unread {
		p.find(Acceptable, "unread", "%s: objects of that kind are not moved", remark)
	}
	var documents []*unstructured.Unstructured
	sides := map[bool][]string{} // the objects that kubectl applied with --server-side, and without
	others := 0
	for _, u := range found.Objects {
		document, edited, err := configuration(u)
		switch {
		case err != nil:
			return err
		case document == nil:
			others++
			continue
		}
		if len(edited) > 0 {
			p.find(Acceptable, "drift", "%s: fields written by %s are in the manifest with their present values", name(u), strings.Join(edited, ", "))
		}
		if u.GetLabels()[applySet] != "" {
			p.find(Note, "applySet", "%s is in an ApplySet of kubectl: it leaves that, so that kubectl does not prune it", name(u))
		}
		withoutLabels(document, applySet)
		_, clientSide := u.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
		sides[!clientSide] = append(sides[!clientSide], object.IdentityIn(u).String())
		documents = append(documents, document)
	}
	if others > 0 {
		p.find(Note, "others", "%s with these labels: not written by kubectl apply, and not moved", display.Plural(others, "object"))
	}
	if len(documents) == 0 {
		return errors.New(strings.Join(append([]string{k.title() + ": kubectl apply has written none"}, found.Unread...), "; "))
	}
	if err := k.c.planDocuments(ctx, p, k, k.namespace, "objects of kubectl apply", documents, nil); err != nil {
		return err
	}
	mostly := len(sides[true]) > len(sides[false])
	former, err := json.Marshal(formerKubectl{ServerSide: mostly, Others: sides[!mostly]})
	p.work.creation.Annotations[v1alpha1.BeforeMigrationAnnotation] = string(former)
	return err
}

// formerKubectl is the value of v1alpha1.BeforeMigrationAnnotation: the way that kubectl applied the objects.
type formerKubectl struct {
	// ServerSide is the way of most objects: true for --server-side. Others are the objects of the other way.
	ServerSide bool     `json:"serverSide"`
	Others     []string `json:"others,omitempty"`
}

func name(u *unstructured.Unstructured) string {
	return strings.TrimSpace(display.Name(u.GetKind(), u.GetNamespace(), u.GetName()))
}

// withoutLabels removes labels of a document.
func withoutLabels(document *unstructured.Unstructured, keys ...string) {
	left := document.GetLabels()
	for _, key := range keys {
		delete(left, key)
	}
	document.SetLabels(left)
}

// configuration returns the configuration of an object that kubectl apply wrote, also with --server-side; nil if it did not. edited are the
// tools of users that wrote fields of it since, as far as the text of kubectl does not show them.
func configuration(u *unstructured.Unstructured) (document *unstructured.Unstructured, edited []string, err error) {
	text, found := u.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	if !found {
		if !slices.Contains(ownership.Managers(u, kubectlManager), kubectlManager) {
			return nil, nil, nil
		}
		return serverSide(u)
	}
	document = &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &document.Object); err != nil || document.GetKind() == "" {
		return nil, nil, errors.New(name(u) + ": its annotation " + corev1.LastAppliedConfigAnnotation + " cannot be read: run kubectl apply again first") // the text is not quoted
	}
	// It may be the annotation of another object that this one is a copy of.
	if document.GetName() != u.GetName() || document.GetKind() != u.GetKind() || document.GetNamespace() != "" && document.GetNamespace() != u.GetNamespace() {
		return nil, nil, nil
	}
	document.SetNamespace(u.GetNamespace())
	return document, nil, nil
}

// serverSide returns the configuration that kubectl applied with --server-side, from managedFields. A user's edit took its field from kubectl, which
// belongs to the configuration all the same.
func serverSide(u *unstructured.Unstructured) (document *unstructured.Unstructured, edited []string, err error) {
	fault := fmt.Errorf("%s: the fields that kubectl applied cannot be read: run kubectl apply --server-side again first", name(u))
	all, others := fieldpath.NewSet(), []metav1.ManagedFieldsEntry(nil)
	for _, e := range u.GetManagedFields() {
		applied := e.Manager == kubectlManager && e.Operation == metav1.ManagedFieldsOperationApply
		byUser := e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" && ownership.DefaultTools.Has(e.Manager)
		if e.FieldsV1 == nil || !applied && !byUser {
			others = append(others, e)
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
			return nil, nil, fault
		}
		if byUser {
			if set = set.RecursiveDifference(fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"))); !set.Empty() {
				edited = append(edited, fmt.Sprintf("%q", e.Manager))
			}
		}
		all = all.Union(set)
	}
	// The values of stringData are in data.
	var keys []string
	stringData := fieldpath.MakePathOrDie("stringData")
	all.Iterate(func(path fieldpath.Path) {
		if len(path) == 2 && path[0].Equals(stringData[0]) && path[1].FieldName != nil {
			keys = append(keys, *path[1].FieldName)
		}
	})
	all = all.RecursiveDifference(fieldpath.NewSet(stringData))
	fields, err := all.ToJSON()
	if err != nil {
		return nil, nil, fault
	}
	with := u.DeepCopy()
	with.SetManagedFields(append(others, metav1.ManagedFieldsEntry{
		Manager: kubectlManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: u.GetAPIVersion(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields)),
	}))
	document, ok := ownership.Extract(with, kubectlManager)
	if !ok {
		return nil, nil, fault
	}
	for _, key := range keys {
		if value, found, _ := unstructured.NestedString(u.Object, "data", key); found {
			if err := unstructured.SetNestedField(document.Object, value, "data", key); err != nil {
				return nil, nil, fault
			}
		}
	}
	return document, edited, nil
}

func (k *kubectl) restore(vr *v1alpha1.VidraResource, live, document *unstructured.Unstructured) (traces, error) {
	var former formerKubectl
	if text, found := vr.Annotations[v1alpha1.BeforeMigrationAnnotation]; found {
		if err := json.Unmarshal([]byte(text), &former); err != nil {
			return traces{}, fmt.Errorf("VidraResource %s: its annotation %s cannot be read", vr.Name, v1alpha1.BeforeMigrationAnnotation)
		}
	}
	if former.ServerSide != slices.Contains(former.Others, object.IdentityIn(live).String()) {
		return traces{manager: kubectlManager, operation: metav1.ManagedFieldsOperationApply}, nil
	}
	back := traces{manager: kubectlUpdater, operation: metav1.ManagedFieldsOperationUpdate}
	if document == nil {
		return back, nil
	}
	document = document.DeepCopy()
	left := document.GetAnnotations()
	delete(left, corev1.LastAppliedConfigAnnotation)
	document.SetAnnotations(left)
	text, err := json.Marshal(document.Object)
	back.annotations = map[string]string{corev1.LastAppliedConfigAnnotation: string(text) + "\n"}
	return back, err
}
