package object

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// Labelled reports whether an object has the label that all managed objects have.
func Labelled(live *unstructured.Unstructured) bool {
	return live.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByValue
}

// Signature are the marks of an owner on an object: the field manager, the annotation, and the labels of its shards.
type Signature struct {
	owner, Manager, Annotation string
	shardLabels                []string
}

// SignatureOf returns the signature of an owner whose shards have labels.
func SignatureOf(installation v1alpha1.Installation, owner string, shardLabels ...string) Signature {
	return Signature{owner, installation.FieldManager(owner), installation.OwnerAnnotationKey(owner), shardLabels}
}

// Mark sets the marks of every object of an owner: the labels that the watches select, and the
// annotation that names the owner.
func (s Signature) Mark(u *unstructured.Unstructured) {
	s.MarkOwner(u)
	if len(s.shardLabels) == 0 {
		return
	}
	all := u.GetLabels()
	for _, key := range s.shardLabels {
		all[key] = ""
	}
	u.SetLabels(all)
}

// Sharded reports whether Mark sets labels of shards.
func (s Signature) Sharded() bool { return len(s.shardLabels) > 0 }

// MarkOwner is Mark without the labels of the shards.
func (s Signature) MarkOwner(u *unstructured.Unstructured) {
	u.SetLabels(labels.Merge(u.GetLabels(), labels.Set{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}))
	u.SetAnnotations(labels.Merge(u.GetAnnotations(), labels.Set{s.Annotation: s.owner}))
}

// MissingLabel returns a watched label that an object lacks; empty if it has all of them.
func (s Signature) MissingLabel(u *unstructured.Unstructured) string {
	labels := u.GetLabels()
	if labels[v1alpha1.ManagedByLabel] != v1alpha1.ManagedByValue {
		return v1alpha1.ManagedByLabel + "=" + v1alpha1.ManagedByValue
	}
	for _, key := range s.shardLabels {
		if _, set := labels[key]; !set {
			return key
		}
	}
	return ""
}
