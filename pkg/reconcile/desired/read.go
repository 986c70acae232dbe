package desired

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// Reader reads the parts of manifests from the sources in spec.manifestFrom.
type Reader struct {
	// Sources watches the sources, and Local is the cluster that they are in.
	Sources *source.Watches
	Local   access.Destination
	// Scope is the part of Local that Vidra may use.
	Scope    cluster.Scope
	Accounts access.Accounts
}

// Parts are the parts of a manifest.
type Parts struct {
	Parts []Part
	// Versions are the versions of the sources that were read.
	Versions map[source.Key]string
	// Artifacts are the revisions of the artifacts that were read.
	Artifacts []v1alpha1.SourceStatus
	// Transient reports that a source was unreadable for a reason that may end while it stays the same.
	Transient bool
	// NotServed are the kinds of sources that are unserved.
	NotServed []schema.GroupKind
	// Missing are the optional parts that are absent.
	Missing []MissingPart
	// Unreadable holds the right that was missing to read a source, with the client.
	Unreadable map[access.Right]dynamic.Interface
}

// MissingPart is an optional part that is absent: Name is for messages, and Namespace is where it would be.
type MissingPart struct{ Name, Namespace string }

// Gather reads the parts of the manifest of an owner.
func (r *Reader) Gather(ctx context.Context, owner trigger.Owner, vr *v1alpha1.VidraResource) (Parts, *object.Failure) {
	// Watched first, so that changes from here on are seen.
	r.watch(ctx, owner, vr, nil)
	if len(vr.Spec.ManifestFrom) == 0 {
		return Parts{Parts: []Part{{text: vr.Spec.Manifest}}}, nil
	}
	got := Parts{Versions: map[source.Key]string{}, Parts: []Part{InlinePart(vr)}}
	client, user, why := r.Accounts.ClientOf(ctx, vr, r.Local)
	if why != nil {
		return got, why
	}
	reads := access.Subject{Cluster: r.Local.Name(), User: user}
	reading := reading{kinds: r.Sources.Kinds, client: client, scope: r.Scope, refused: func(err error, key source.Key) {
		gvr, unknown := r.Sources.Kinds.Resource(ctx, key.Kind)
		if unknown != nil {
			return
		}
		for _, right := range reads.Refused(err, gvr, key.Namespace, "get") {
			right.Name = key.Name // which is all that a role has to name
			got.Unreadable = map[access.Right]dynamic.Interface{right: client}
		}
	}}
	why = reading.into(ctx, &got, vr)
	if len(got.NotServed) > 0 { // discovery may have been behind
		r.watch(ctx, owner, vr, got.NotServed)
	}
	return got, why
}

// watch watches the sources of an owner except the sources of gone kinds.
func (r *Reader) watch(ctx context.Context, owner trigger.Owner, vr *v1alpha1.VidraResource, gone []schema.GroupKind) {
	r.Sources.Sync(owner, slices.Values(slices.DeleteFunc(source.KeysOf(vr), func(key source.Key) bool {
		return r.Scope.Namespace(key.Namespace) != nil || !r.Sources.Kinds.Serves(ctx, key.Kind) ||
			slices.ContainsFunc(gone, func(kind schema.GroupKind) bool { return kind.Kind == key.Kind })
	})))
}

// ReadParts reads the parts of the manifest of a VidraResource once, with the rights of a client. It takes the parts that given returns
// instead of reading them; given may be nil.
func ReadParts(ctx context.Context, kinds source.Kinds, client dynamic.Interface, vr *v1alpha1.VidraResource,
	given func(vr *v1alpha1.VidraResource, from v1alpha1.ManifestSource) (text string, found bool),
) ([]Part, error) {
	if len(vr.Spec.ManifestFrom) == 0 {
		return []Part{{text: vr.Spec.Manifest}}, nil
	}
	got := Parts{Versions: map[source.Key]string{}, Parts: []Part{InlinePart(vr)}}
	reading := reading{kinds: kinds, client: client, refused: func(error, source.Key) {}, given: given}
	if why := reading.into(ctx, &got, vr); why != nil {
		return nil, fmt.Errorf("read the manifest of VidraResource %s: %s", vr.Name, why.Message)
	}
	return got.Parts, nil
}

// reading reads parts of a manifest.
type reading struct {
	kinds  source.Kinds
	client dynamic.Interface
	// scope bounds the sources that may be read.
	scope cluster.Scope
	// refused is called with the error of a read.
	refused func(err error, key source.Key)
	// given returns parts that are taken instead of read; optional.
	given func(vr *v1alpha1.VidraResource, from v1alpha1.ManifestSource) (text string, found bool)
}

// into adds the parts that spec.manifestFrom names, up to the first unreadable one.
func (r reading) into(ctx context.Context, got *Parts, vr *v1alpha1.VidraResource) *object.Failure {
	read := map[source.Key]*source.Content{}
	entries := map[source.Key]int{} // of each object so far
	vars, why := r.variables(ctx, got, vr)
	if why != nil {
		return why
	}
	size := len(vr.Spec.Manifest)
	for i, from := range vr.Spec.ManifestFrom {
		key := source.KeyOf(vr, from)
		entry := entries[key]
		entries[key]++
		name := partName(key, source.LabelOf(from), i)
		unavailable := func(text string) *object.Failure {
			return &object.Failure{Reason: v1alpha1.ReasonSourceUnavailable, Message: display.Truncate(name+": "+text, v1alpha1.MaxProblemMessage)}
		}
		if key.Namespace == "" {
			return &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: name + ": give it a namespace, or set spec.destination.namespace"}
		}
		if err := r.scope.Namespace(key.Namespace); err != nil {
			return unavailable(err.Error())
		}
		if r.given != nil {
			if text, found := r.given(vr, from); found {
				got.Parts = append(got.Parts, partOf(vr, i, name, source.Text{Text: text}))
				size += len(text)
				continue
			}
		}
		if _, known := read[key]; !known {
			content, err := r.kinds.Fetch(ctx, source.Request{
				Client: r.client, Key: key, Parts: source.PartsOf(vr, key), Namespace: vr.Spec.Destination.Namespace, Kustomize: vr.Spec.Kustomize, Variables: vars,
			})
			if err != nil {
				return r.failure(got, err, key, name)
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
			return &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: fmt.Sprintf(
				"%s: the parts of the manifest have %d bytes up to here, and the limit is %d: make several VidraResources of it", name, size, maxManifest)}
		case texts == nil && from.Optional:
			got.Missing = append(got.Missing, MissingPart{name, key.Namespace})
		case content == nil && source.IsArtifact(key.Kind):
			return unavailable("does not exist: create it")
		case content == nil:
			return unavailable("does not exist: create it, or set optional")
		case texts == nil:
			return unavailable("does not have this key: add it, or set optional")
		case source.IsArtifact(key.Kind):
			got.Artifacts = append(got.Artifacts, v1alpha1.SourceStatus{
				Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Path: from.Path, Revision: content.Shown, Digest: content.Digest,
			})
		}
		for _, text := range texts {
			got.Parts = append(got.Parts, partOf(vr, i, partName(key, text.Label, i), text))
		}
	}
	return nil
}

// variables reads the variables of a VidraResource.
func (r reading) variables(ctx context.Context, got *Parts, vr *v1alpha1.VidraResource) (source.Variables, *object.Failure) {
	if vr.Spec.Kustomize == nil {
		return source.Variables{}, nil
	}
	if len(vr.Spec.Kustomize.SubstituteFrom) > 0 {
		if in := vr.Spec.Destination.Namespace; in == "" {
			return source.Variables{}, &object.Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: "spec.kustomize.substituteFrom needs spec.destination.namespace: set it"}
		} else if err := r.scope.Namespace(in); err != nil {
			return source.Variables{}, &object.Failure{Reason: v1alpha1.ReasonSourceUnavailable, Message: "spec.kustomize.substituteFrom: " + display.ErrorText(err.Error())}
		}
	}
	vars, revisions, failed, err := source.ReadVariables(ctx, r.client, vr)
	maps.Copy(got.Versions, revisions)
	if err != nil {
		return vars, r.failure(got, err, failed, "")
	}
	for i, key := range source.VariableKeys(vr) { // an optional one
		if revisions[key] == "" {
			got.Missing = append(got.Missing, MissingPart{fmt.Sprintf("%s (spec.kustomize.substituteFrom[%d])", key, i), key.Namespace})
		}
	}
	return vars, nil
}

// failure returns the reason for an unreadable source. name is the name of its part, if the error lacks it.
func (r reading) failure(got *Parts, err error, key source.Key, name string) *object.Failure {
	r.refused(err, key)
	message := display.ErrorText(err.Error())
	if name != "" {
		message = name + ": " + message
	}
	why := &object.Failure{Reason: v1alpha1.ReasonSourceUnavailable, Message: display.Truncate(message, v1alpha1.MaxProblemMessage)}
	got.Transient = !apierrors.IsForbidden(err)
	if of, is := errors.AsType[*source.Error](err); is {
		why.Reason, got.Transient = of.Reason, !of.Awaited && of.NotServed.Empty() && got.Transient
		if of.Revision != "" {
			got.Versions[key] = of.Revision
		}
		if !of.NotServed.Empty() {
			got.NotServed = append(got.NotServed, of.NotServed)
		}
	}
	return why
}

// partName is the name of a part of the entry i of spec.manifestFrom.
func partName(key source.Key, label string, i int) string {
	return fmt.Sprintf("%s, %s (spec.manifestFrom[%d])", key, label, i)
}

// partOf returns a part of the entry i of spec.manifestFrom.
func partOf(vr *v1alpha1.VidraResource, i int, name string, text source.Text) Part {
	from := &vr.Spec.ManifestFrom[i]
	return Part{name: name, text: text.Text, source: from, secret: from.Kind == source.Secret || text.Sensitive, origin: text.Origin, file: text.File}
}

// withhold has the values of objects that come from a Secret treated like the values of a
// Secret are, except where an annotation in the manifest decides.
func withhold(objects []manifest.Object) {
	for _, object := range objects {
		object.SetAnnotations(labels.Merge(labels.Set{ownership.SensitiveAnnotation: "true"}, object.GetAnnotations()))
	}
}
