package desired

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Reader reads the parts of manifests from what spec.manifestFrom names.
type Reader struct {
	// Sources watches the sources, and Local is the cluster that they are in.
	Sources *source.Watches
	Local   access.Destination
	// Scope is what Vidra may do in Local.
	Scope    cluster.Scope
	Accounts access.Accounts
}

// Parts are the parts of a manifest.
type Parts struct {
	Parts []Part
	// Versions are those of the sources that were read.
	Versions map[source.Key]string
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
	got := Parts{Versions: map[source.Key]string{}}
	// Watched first, so that no change comes between.
	r.Sources.Sync(owner, slices.Values(slices.DeleteFunc(source.KeysOf(vr), func(key source.Key) bool { return r.Scope.Namespace(key.Namespace) != nil })))
	if len(from) == 0 {
		return Parts{Parts: []Part{{text: vr.Spec.Manifest}}}, nil
	}
	got.Parts = append(got.Parts, Part{name: specManifest, text: vr.Spec.Manifest})
	client, user, why := r.Accounts.ClientOf(ctx, vr, r.Local)
	if why != nil {
		return got, why
	}
	reads := access.Subject{Cluster: r.Local.Name(), User: user}
	reading := reading{kinds: r.Sources.Kinds, client: client, scope: r.Scope, refused: func(err error, key source.Key) {
		gvr, unknown := r.Sources.Kinds[key.Kind].Resource(ctx)
		if unknown != nil {
			return
		}
		for _, right := range reads.Refused(err, gvr, key.Namespace, "get") {
			right.Name = key.Name // which is all that a role has to name
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
	given func(vr *v1alpha1.VidraResource, from v1alpha1.ManifestSource) (text string, found bool),
) ([]Part, error) {
	if len(vr.Spec.ManifestFrom) == 0 {
		return []Part{{text: vr.Spec.Manifest}}, nil
	}
	got := Parts{Versions: map[source.Key]string{}, Parts: []Part{{name: specManifest, text: vr.Spec.Manifest}}}
	reading := reading{kinds: source.Objects(nil), client: client, refused: func(error, source.Key) {}, given: given}
	if why := reading.into(ctx, &got, vr); why != nil {
		return nil, fmt.Errorf("read the manifest of VidraResource %s: %s", vr.Name, why.Message)
	}
	return got.Parts, nil
}

// reading reads parts of a manifest.
type reading struct {
	kinds  source.Kinds
	client dynamic.Interface
	// scope is what may be read.
	scope cluster.Scope
	// refused is called with the error of a read.
	refused func(err error, key source.Key)
	// given returns parts that are not read; nil for none.
	given func(vr *v1alpha1.VidraResource, from v1alpha1.ManifestSource) (text string, found bool)
}

// into adds the parts that spec.manifestFrom names, up to the first that cannot be read.
func (r reading) into(ctx context.Context, got *Parts, vr *v1alpha1.VidraResource) *object.Failure {
	read := map[source.Key]*source.Content{}
	entries := map[source.Key]int{} // of each object so far
	size := len(vr.Spec.Manifest)
	for i, from := range vr.Spec.ManifestFrom {
		key := source.KeyOf(vr, from)
		entry := entries[key]
		entries[key]++
		name := partName(key, source.LabelOf(from), i)
		unavailable := func(text string) *object.Failure {
			return &object.Failure{Reason: v1alpha1.ReasonSourceUnavailable, Message: display.Truncate(name+": "+text, object.MaxMessage)}
		}
		if key.Namespace == "" {
			return &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: name + ": give it a namespace, or set spec.destination.namespace"}
		}
		if err := r.scope.Namespace(key.Namespace); err != nil {
			return unavailable(err.Error())
		}
		if r.given != nil {
			if text, found := r.given(vr, from); found {
				got.Parts = append(got.Parts, partOf(vr, i, name, text))
				size += len(text)
				continue
			}
		}
		if _, known := read[key]; !known {
			content, err := r.kinds[key.Kind].Fetch(ctx, source.Request{Client: r.client, Key: key, Parts: source.PartsOf(vr, key)})
			if err != nil {
				r.refused(err, key)
				return unavailable(err.Error())
			}
			read[key] = content
		}
		content := read[key]
		got.Versions[key] = ""
		var texts []source.Text
		if content != nil {
			got.Versions[key] = content.Revision
			texts = content.Parts[entry]
		}
		for _, text := range texts {
			size += len(text.Text)
		}
		switch {
		case size > maxManifest:
			return &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: name + ": " + oversized(size)}
		case texts == nil && from.Optional:
			got.Missing = append(got.Missing, MissingPart{name, key.Namespace})
		case content == nil:
			return unavailable("does not exist: create it, or set optional")
		case texts == nil:
			return unavailable("does not have this key: add it, or set optional")
		}
		for _, text := range texts {
			got.Parts = append(got.Parts, partOf(vr, i, partName(key, text.Label, i), text.Text))
		}
	}
	return nil
}

// partName is the name of a part of the entry i of spec.manifestFrom.
func partName(key source.Key, label string, i int) string {
	return fmt.Sprintf("%s, %s (spec.manifestFrom[%d])", key, label, i)
}

// partOf returns a part of the entry i of spec.manifestFrom.
func partOf(vr *v1alpha1.VidraResource, i int, name, text string) Part {
	from := &vr.Spec.ManifestFrom[i]
	return Part{name: name, text: text, source: from, secret: from.Kind == source.Secret}
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
