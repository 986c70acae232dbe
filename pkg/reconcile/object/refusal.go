package object

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Refusal is an object that the API server accepts as a new one and refuses as a change of the existing object: a field is
// immutable, or has a bound such as the size of a claim.
type Refusal struct {
	ID Identity
	// Answer is the reason of the API server with the fields.
	Answer string
	// Fields lead to the refused fields; see FieldNames.
	Fields [][]string
	// Differing are the paths of the manifest with another value than the object, for an API server that names a parent alone.
	Differing []string
	// Unset reports that the API server names a field that the manifest leaves unset. The object stays then: a
	// default may be in the way.
	Unset bool
}

// String describes the refused fields and the reason.
func (r Refusal) String() string {
	text := "the API server refuses the change of the object that exists: " + strings.TrimSuffix(r.Answer, ".")
	if below := r.below(); len(below) > 0 {
		text += ". The manifest differs in " + strings.Join(below, ", ")
	}
	return text
}

// below returns the differing paths below a refused field.
func (r Refusal) below() (below []string) {
	for _, path := range r.Differing {
		if slices.ContainsFunc(r.Fields, func(field []string) bool { return strings.HasPrefix(path, strings.Join(field, ".")+".") }) {
			below = append(below, path)
		}
	}
	return below
}

// advice is the smallest step that a user can take after the refusal of a field.
type advice struct {
	kind schema.GroupKind
	// field is the path of the refused field or of one above it, without indexes; empty for any field.
	field string
	// answer is a part of the answer of the API server; empty for any.
	answer string
	step   string
}

// otherName is the step for an object without other advice.
const otherName = "Add an object with another name to the manifest, and remove this one when it is not used any more; otherwise "

// inManifest is the step that is possible for every field.
const inManifest = "set the field in the manifest to the value that the object has"

// advices are ordered: the first one that fits counts. %s is the name of the object with its namespace, as arguments of kubectl.
var advices = []advice{
	{kind: schema.GroupKind{Kind: "PersistentVolumeClaim"}, field: "spec.resources", step: "A claim can grow once it is bound, and never shrink: set the size in the manifest to that of the claim or more. " +
		"For less, add a claim with another name and copy the data. A deleted claim loses its data"},
	{kind: schema.GroupKind{Kind: "PersistentVolumeClaim"}, step: "To change it, add a claim with another name and copy the data; otherwise " + inManifest + ". A deleted claim loses its data"},
	{kind: schema.GroupKind{Kind: "PersistentVolume"}, step: "To change it, add a volume with another name; otherwise " + inManifest + ". A deleted volume may lose its data"},
	{kind: schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, field: "spec.selector", step: "Give the StatefulSet another name in the manifest and copy the data: Pods of the present one " +
		"keep their labels and names, and are in the way of a new one; otherwise " + inManifest},
	{kind: schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, step: "`kubectl delete statefulset %s --cascade=orphan` deletes the StatefulSet alone: its Pods and claims stay, and Vidra creates it again with the manifest. " +
		"To grow claims that exist, change the size in each of them; otherwise " + inManifest},
	{kind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, field: "spec.selector", step: "Give the Deployment another name in the manifest, so that the new Pods run before the old ones end; otherwise " + inManifest},
	{kind: schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, field: "spec.selector", step: "Give the DaemonSet another name in the manifest; otherwise " + inManifest},
	{kind: schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, field: "spec.selector", step: "Give the ReplicaSet another name in the manifest; otherwise " + inManifest},
	{kind: schema.GroupKind{Group: "batch", Kind: "Job"}, step: "A Job runs once: give it another name in the manifest for another run; otherwise " + inManifest},
	{kind: schema.GroupKind{Kind: "Pod"}, step: "Most fields of a Pod never change: let a Deployment or Job create it, or give it another name; otherwise " + inManifest},
	{kind: schema.GroupKind{Kind: "ConfigMap"}, answer: "immutable", step: "Give it another name in the manifest, and name that in the objects that use it; otherwise " + inManifest},
	{kind: schema.GroupKind{Kind: "Secret"}, step: "Give it another name in the manifest, and name that in the objects that use it; otherwise " + inManifest},
	{kind: schema.GroupKind{Kind: "Service"}, field: "spec.clusterIP", step: "Omit the field from the manifest to keep the address that the Service has, or add a Service with another name"},
	{kind: schema.GroupKind{Kind: "Service"}, field: "spec.healthCheckNodePort", step: "Omit the field from the manifest to keep the port that the Service has"},
	{kind: schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}, step: "Add a StorageClass with another name; volumes keep the parameters with which they were created"},
	{kind: schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}, field: "roleRef", step: "Add a RoleBinding with another name and remove this one from the manifest, so that the subjects keep their rights meanwhile"},
	{kind: schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}, field: "roleRef", step: "Add a ClusterRoleBinding with another name and remove this one from the manifest, so that the subjects keep their rights meanwhile"},
	{kind: CRDKind, answer: "storedVersions", step: "Keep the version in the manifest with served: false, until no object is stored in it and it is removed from status.storedVersions"},
	{kind: CRDKind, step: "Objects of the kind are lost when the CustomResourceDefinition is deleted: " + inManifest + ", or define another kind"},
	{kind: NamespaceKind, step: "Objects in the namespace are lost when it is deleted: " + inManifest},
}

// Advice is the smallest step after the refusal; empty if only a change of the manifest or a new object is known to help.
func (r Refusal) Advice() string {
	paths := r.below()
	for _, field := range r.Fields {
		paths = append(paths, strings.Join(field, "."))
	}
	for _, a := range advices {
		fits := a.field == "" || slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(path, a.field) })
		if a.kind != r.ID.GroupKind || !fits || !strings.Contains(r.Answer, a.answer) {
			continue
		}
		if strings.Contains(a.step, "%s") {
			name := r.ID.Name
			if r.ID.Namespace != "" {
				name += " -n " + r.ID.Namespace
			}
			return fmt.Sprintf(a.step, name)
		}
		return a.step
	}
	return ""
}

// HoldsData reports whether objects of a kind hold data or other objects: they are deleted and created again only if the object allows
// it, and no message advises their deletion.
func HoldsData(kind schema.GroupKind) bool {
	switch kind {
	case NamespaceKind, CRDKind, schema.GroupKind{Kind: "PersistentVolume"}, schema.GroupKind{Kind: "PersistentVolumeClaim"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return true
	}
	return false
}

// WithAdvice describes the refusal, with the smallest step after it.
func (r Refusal) WithAdvice() string {
	step := cmp.Or(r.Advice(), otherName+inManifest)
	switch {
	case r.Unset, HoldsData(r.ID.GroupKind):
	case r.ID.IsBuiltIn():
		step += ". With spec.force, Vidra deletes the object and creates it again"
	default:
		step += ". With spec.force, Vidra deletes the object and creates it again: what it stands for may be lost"
	}
	return r.String() + ". " + step
}
