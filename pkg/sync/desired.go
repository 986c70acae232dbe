package sync

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/parts"
	"github.com/vidra-operator/vidra/pkg/source/infrahub"
)

const (
	// secretPrefix begins the names of Secrets with parts of manifests, and manifestKey is their key.
	secretPrefix = "infrahub-artifact-"
	manifestKey  = "manifest"
	// maxMessage bounds the message about one artifact.
	maxMessage = 1000
)

// problem is the obstacle to the apply of an artifact.
type problem struct {
	v1alpha1.ArtifactProblem
	// transient means that it may end without a change of the artifact, or of the InfrahubSync.
	transient bool
}

func newProblem(id, reason, format string, args ...any) *problem {
	return &problem{ArtifactProblem: v1alpha1.ArtifactProblem{
		ID: display.Truncate(display.Line(id), validation.DNS1123SubdomainMaxLength), Reason: reason,
		Message: display.Truncate(display.Line(fmt.Sprintf(format, args...)), maxMessage),
	}, transient: reason == v1alpha1.ArtifactUnavailable || reason == v1alpha1.ArtifactRefused}
}

func (p *problem) Error() string { return p.Message }

// nameOf returns the name of the VidraResource of an artifact.
func nameOf(is *v1alpha1.InfrahubSync, id string) string {
	if t := is.Spec.Template; t != nil {
		return id + t.NameSuffix
	}
	return id
}

// check returns the obstacle to the apply of an artifact, by its entry in the list of the server, or nil.
func check(is *v1alpha1.InfrahubSync, a infrahub.Artifact) *problem {
	name := nameOf(is, a.ID)
	switch {
	case len(validation.IsDNS1123Subdomain(name)) > 0 || len(secretPrefix+name) > validation.DNS1123SubdomainMaxLength:
		return newProblem(a.ID, v1alpha1.ArtifactInvalid, "%q is no name of a VidraResource: the id of an artifact must be a UUID", display.Truncate(name, 300))
	case a.Ambiguous:
		return newProblem(a.ID, v1alpha1.ArtifactInvalid, "the server lists artifact %s twice, with different content: see the query in Infrahub", a.ID)
	case a.Name != "" && a.Name != is.Spec.Source.ArtifactName:
		return newProblem(a.ID, v1alpha1.ArtifactInvalid,
			"the server lists artifact %s, whose name is %q and not %q: the query must select by name__values: $artifactname", a.ID, display.Truncate(a.Name, 200), is.Spec.Source.ArtifactName)
	case a.Status != "" && a.Status != "Ready":
		return newProblem(a.ID, v1alpha1.ArtifactNotReady, "artifact %s is %s in Infrahub: see the artifact there", a.ID, display.Truncate(a.Status, 100))
	case !readable(a.ContentType):
		return newProblem(a.ID, v1alpha1.ArtifactUnsupported,
			"artifact %s has the content type %s: set content_type of its definition to application/yaml or application/json", a.ID, display.Truncate(a.ContentType, 100))
	}
	return nil
}

// readable reports whether content of a type can be a manifest. An unknown type is.
func readable(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "", "application/json", "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/json", "application/octet-stream":
		return true
	}
	return false
}

// content is the content of an artifact: the text for the spec, and that for a Secret, which may be empty.
type content struct{ spec, secret string }

// classify parses the content of an artifact and separates the part for a Secret.
func classify(id string, text []byte) (content, *problem) {
	trimmed := strings.TrimSpace(string(text)) // as the first operator did, so that its VidraResources do not change
	objects, err := manifest.Parse(trimmed, manifest.Options{})
	if err != nil {
		return content{}, newProblem(id, v1alpha1.ArtifactInvalid, "artifact %s is no manifest: %s: see its transformation in Infrahub", id, err)
	}
	if len(objects) == 0 {
		return content{}, newProblem(id, v1alpha1.ArtifactInvalid, "artifact %s holds no object: see its transformation in Infrahub", id)
	}
	spec, secret := manifest.Partition(trimmed, objects, func(o manifest.Object) bool { return parts.Sensitive(o.Unstructured) })
	return content{spec: spec, secret: secret}, nil
}

// contentID identifies the content of an artifact; empty if the server leaves it unidentified.
func contentID(a infrahub.Artifact) string {
	if a.StorageID == "" && a.Checksum == "" {
		return ""
	}
	return digest(a.StorageID, a.Checksum)
}

// digest is a hash of texts.
func digest(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(text), text) // never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// inSecret stands for the content in the annotation of a VidraResource whose manifest is in a Secret: an identification of it
// would help to guess its values.
const inSecret = "secret"

// settings returns the VidraResource of an artifact without its manifest, as it is applied.
func settings(is *v1alpha1.InfrahubSync, id string, installation v1alpha1.Installation) (*unstructured.Unstructured, error) {
	destination := map[string]any{"reconcileOnEvents": is.Spec.Destination.ReconcileOnEvents}
	if server := is.Spec.Destination.Server; server != "" {
		destination["server"] = server
	}
	if namespace := is.Spec.Destination.Namespace; namespace != "" {
		destination["namespace"] = namespace
	}
	spec := map[string]any{"destination": destination}
	if account := is.Spec.ServiceAccountName; account != "" {
		spec["serviceAccountName"] = account
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	u.SetName(nameOf(is, id))
	u.SetFinalizers([]string{installation.Finalizer()})
	u.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(is, v1alpha1.GroupVersion.WithKind(v1alpha1.SyncKind))})
	labels := map[string]string{}
	if t := is.Spec.Template; t != nil {
		maps.Copy(labels, t.Labels)
		if err := addTemplate(spec, t); err != nil {
			return nil, err
		}
		if len(t.Annotations) > 0 {
			u.SetAnnotations(maps.Clone(t.Annotations))
		}
	}
	if installation != "" {
		labels[v1alpha1.InstallationLabel] = string(installation)
	}
	if len(labels) > 0 {
		u.SetLabels(labels)
	}
	return u, nil
}

// addTemplate adds the fields of a template to the spec of a VidraResource.
func addTemplate(spec map[string]any, t *v1alpha1.VidraResourceTemplate) error {
	set := func(field string, value any, isSet bool) {
		if isSet {
			spec[field] = value
		}
	}
	boolean := func(field string, value *bool) {
		if value != nil {
			spec[field] = *value
		}
	}
	boolean("wait", t.Wait)
	boolean("force", t.Force)
	boolean("prune", t.Prune)
	set("adopt", string(t.Adopt), t.Adopt != "")
	set("deletionPolicy", string(t.DeletionPolicy), t.DeletionPolicy != "")
	set("unmanagedContents", string(t.UnmanagedContents), t.UnmanagedContents != "")
	if t.Interval != nil {
		spec["interval"] = t.Interval.Duration.String()
	}
	if t.Drift != nil {
		drift, err := runtime.DefaultUnstructuredConverter.ToUnstructured(t.Drift)
		if err != nil {
			return fmt.Errorf("read spec.template.drift: %w", err)
		}
		spec["drift"] = drift
	}
	return nil
}

// identify returns the value of ArtifactAnnotation of a VidraResource: the content, the part of the manifest in the spec and
// the settings.
func identify(content, manifestText string, settings *unstructured.Unstructured) (string, error) {
	text, err := json.Marshal(settings.Object) // its keys are in order
	if err != nil {
		return "", err
	}
	return content + "." + digest(manifestText) + "." + digest(string(text)), nil
}

// complete adds the manifest and ArtifactAnnotation to the settings of a VidraResource. secretNamespace is the namespace of
// the Secret with the other part, or empty.
func complete(settings *unstructured.Unstructured, id, spec, secretNamespace string) (*unstructured.Unstructured, error) {
	annotation, err := identify(id, spec, settings)
	if err != nil {
		return nil, err
	}
	u := settings.DeepCopy()
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.ArtifactAnnotation] = annotation
	u.SetAnnotations(annotations)
	fields, _ := u.Object["spec"].(map[string]any)
	fields["manifest"] = spec
	if secretNamespace != "" {
		fields["manifestFrom"] = []any{map[string]any{
			"kind": "Secret", "name": secretPrefix + u.GetName(), "namespace": secretNamespace, "key": manifestKey,
		}}
	}
	return u, nil
}

// isCurrent reports whether a live VidraResource is as it would be applied for a content. Its manifest is compared by its digest.
func isCurrent(live *v1alpha1.VidraResource, settings *unstructured.Unstructured, content, secretNamespace string) bool {
	want, err := complete(settings, content, live.Spec.Manifest, secretNamespace)
	if err != nil || content == "" {
		return false
	}
	is, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false
	}
	return covers(is, map[string]any{"metadata": want.Object["metadata"], "spec": want.Object["spec"]})
}

// covers reports whether live has all values of want. A value that is missing in live counts as the empty value of its type, and
// references and finalizers of others are ignored.
func covers(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		is, _ := live.(map[string]any)
		for key, value := range want {
			if shared := key == "ownerReferences" || key == "finalizers"; shared && !contains(is[key], value) || !shared && !covers(is[key], value) {
				return false
			}
		}
		return true
	case []any:
		is, _ := live.([]any)
		return slices.EqualFunc(is, want, covers)
	}
	return live == want || live == nil && reflect.ValueOf(want).IsZero()
}

// contains reports whether the list live has all items of the list want.
func contains(live, want any) bool {
	is, _ := live.([]any)
	items, _ := want.([]any)
	return !slices.ContainsFunc(items, func(item any) bool {
		return !slices.ContainsFunc(is, func(one any) bool { return covers(one, item) })
	})
}
