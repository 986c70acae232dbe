package desired

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// SourceKeyOf is the object that holds a part of the manifest.
func SourceKeyOf(vr *v1alpha1.VidraResource, source v1alpha1.ManifestSource) SourceKey {
	key := SourceKey{kind: source.Kind, namespace: source.Namespace, name: source.Name}
	if key.namespace == "" {
		key.namespace = vr.Spec.Destination.Namespace
	}
	return key
}

// Reader reads the parts of manifests from what spec.manifestFrom names.
type Reader struct {
	Sources *Sources
	// Metadata watches the sources, and Local is the cluster that they are in.
	Metadata metadata.Interface
	Local    access.Destination
	// Scope is what Vidra may do in Local.
	Scope    cluster.Scope
	Accounts access.Accounts
}

// Parts are the parts of a manifest.
type Parts struct {
	Parts []Part
	// Versions are those of the sources that were read.
	Versions map[SourceKey]string
	// Missing are the optional parts that do not exist.
	Missing []MissingPart
	// Unreadable holds the right that was missing to read a source, with the client.
	Unreadable map[access.Right]dynamic.Interface
}

// MissingPart is an optional part that does not exist: Name is for messages, and Namespace is the one that it would be in.
type MissingPart struct{ Name, Namespace string }

// Gather reads the parts of the manifest of an owner.
func (r *Reader) Gather(ctx context.Context, owner trigger.Owner, vr *v1alpha1.VidraResource) (Parts, *object.Failure) {
	from := vr.Spec.ManifestFrom
	wanted, got := r.wanted(vr), Parts{Versions: map[SourceKey]string{}}
	// Watched first, so that no change comes between.
	r.Sources.sync(owner, r.Metadata, wanted)
	if len(from) == 0 {
		return Parts{Parts: []Part{{text: vr.Spec.Manifest}}}, nil
	}
	got.Parts = append(got.Parts, Part{name: specManifest, text: vr.Spec.Manifest})
	client, user, why := r.Accounts.ClientOf(ctx, vr, r.Local)
	if why != nil {
		return got, why
	}
	reads := access.Subject{Cluster: r.Local.Name(), User: user}
	reading := reading{client: client, scope: r.Scope, wanted: wanted, refused: func(err error, key SourceKey) {
		for _, right := range reads.Refused(err, key.GVR(), key.namespace, "get") {
			right.Name = key.name // which is all that a role has to name
			got.Unreadable = map[access.Right]dynamic.Interface{right: client}
		}
	}}
	return got, reading.into(ctx, &got, vr)
}

// ReadParts reads the parts of the manifest of a VidraResource once, with the rights of a client.
func ReadParts(ctx context.Context, client dynamic.Interface, vr *v1alpha1.VidraResource) ([]Part, error) {
	return ReadPartsWith(ctx, client, vr, nil)
}

// ReadPartsWith is ReadParts, but for the parts that given returns. These are not read. given may be nil.
func ReadPartsWith(ctx context.Context, client dynamic.Interface, vr *v1alpha1.VidraResource,
	given func(vr *v1alpha1.VidraResource, source v1alpha1.ManifestSource) (text string, found bool),
) ([]Part, error) {
	if len(vr.Spec.ManifestFrom) == 0 {
		return []Part{{text: vr.Spec.Manifest}}, nil
	}
	got := Parts{Versions: map[SourceKey]string{}, Parts: []Part{{name: specManifest, text: vr.Spec.Manifest}}}
	reading := reading{client: client, wanted: (&Reader{}).wanted(vr), refused: func(error, SourceKey) {}, given: given}
	if why := reading.into(ctx, &got, vr); why != nil {
		return nil, fmt.Errorf("read the manifest of VidraResource %s: %s", vr.Name, why.Message)
	}
	return got.Parts, nil
}

// reading reads parts of a manifest.
type reading struct {
	client dynamic.Interface
	// scope is what may be read.
	scope cluster.Scope
	// wanted are the sources with their keys.
	wanted map[SourceKey]map[string]struct{}
	// refused is called with the error of a read.
	refused func(err error, key SourceKey)
	// given returns parts that are not read; nil for none.
	given func(vr *v1alpha1.VidraResource, source v1alpha1.ManifestSource) (text string, found bool)
}

// into adds the parts that spec.manifestFrom names, up to the first that cannot be read.
func (r reading) into(ctx context.Context, got *Parts, vr *v1alpha1.VidraResource) *object.Failure {
	read := map[SourceKey]*heldParts{}
	size := len(vr.Spec.Manifest)
	for i, source := range vr.Spec.ManifestFrom {
		key := SourceKeyOf(vr, source)
		name := fmt.Sprintf("%s, key %s (spec.manifestFrom[%d])", display.Name(key.kind, key.namespace, key.name), source.Key, i)
		unavailable := func(text string) *object.Failure {
			return &object.Failure{Reason: v1alpha1.ReasonSourceUnavailable, Message: display.Truncate(name+": "+text, object.MaxMessage)}
		}
		if key.namespace == "" {
			return &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: name + ": give it a namespace, or set spec.destination.namespace"}
		}
		if err := r.scope.Namespace(key.namespace); err != nil {
			return unavailable(err.Error())
		}
		if r.given != nil {
			if text, found := r.given(vr, source); found {
				got.Parts = append(got.Parts, Part{name: name, text: text, source: &vr.Spec.ManifestFrom[i], secret: key.kind == "Secret"})
				size += len(text)
				continue
			}
		}
		if _, known := read[key]; !known {
			held, err := readSource(ctx, r.client, key, r.wanted[key])
			if err != nil {
				r.refused(err, key)
				return unavailable(err.Error())
			}
			read[key] = held
		}
		held := read[key]
		got.Versions[key] = ""
		text, found := "", false
		if held != nil {
			got.Versions[key] = held.version
			text, found = held.texts[source.Key]
		}
		size += len(text)
		switch {
		case size > maxManifest:
			return &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: name + ": " + oversized(size)}
		case !found && source.Optional:
			got.Missing = append(got.Missing, MissingPart{name, key.namespace})
		case held == nil:
			return unavailable("does not exist: create it, or set optional")
		case !found:
			return unavailable("does not have this key: add it, or set optional")
		default:
			got.Parts = append(got.Parts, Part{name: name, text: text, source: &vr.Spec.ManifestFrom[i], secret: key.kind == "Secret"})
		}
	}
	return nil
}

// wanted returns the sources of a VidraResource that may be read, with their keys that are parts.
func (r *Reader) wanted(vr *v1alpha1.VidraResource) map[SourceKey]map[string]struct{} {
	wanted := map[SourceKey]map[string]struct{}{}
	for _, source := range vr.Spec.ManifestFrom {
		key := SourceKeyOf(vr, source)
		if r.Scope.Namespace(key.namespace) != nil {
			continue
		}
		if wanted[key] == nil {
			wanted[key] = map[string]struct{}{}
		}
		wanted[key][source.Key] = struct{}{}
	}
	return wanted
}

// withhold has the values of objects that come from a Secret treated as those of a
// Secret are, unless an annotation in the manifest decides it.
func withhold(objects []manifest.Object) {
	for _, object := range objects {
		annotations := object.GetAnnotations()
		if _, set := annotations[ownership.SensitiveAnnotation]; set {
			continue
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[ownership.SensitiveAnnotation] = "true"
		object.SetAnnotations(annotations)
	}
}
