package reconcile

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// keyOf is the object that holds a part of the manifest.
func keyOf(vr *v1alpha1.VidraResource, source v1alpha1.ManifestSource) sourceKey {
	key := sourceKey{kind: source.Kind, namespace: source.Namespace, name: source.Name}
	if key.namespace == "" {
		key.namespace = vr.Spec.Destination.Namespace
	}
	return key
}

// sourcesChanged reports whether what spec.manifestFrom names differs from what was read
// last, and whether that is not known of some of it.
func (r *Reconciler) sourcesChanged(vr *v1alpha1.VidraResource, s *ownerState) (changed, unknown bool) {
	for _, source := range vr.Spec.ManifestFrom {
		key := keyOf(vr, source)
		version, known := r.sources.version(key)
		changed = changed || known && version != s.sources[key]
		unknown = unknown || !known
	}
	return changed, unknown
}

// reader reads the parts of manifests from what spec.manifestFrom names.
type reader struct {
	sources *sources
	// metadata watches the sources, and local is the cluster that they are in.
	metadata metadata.Interface
	local    Destination
	accounts accounts
}

// gathered are the parts of a manifest.
type gathered struct {
	parts []part
	// versions are those of the sources that were read.
	versions map[sourceKey]string
	// unreadable holds the right that was missing to read a source, with the client.
	unreadable map[access]dynamic.Interface
}

// gather reads the parts of the manifest of an owner.
func (r *reader) gather(ctx context.Context, owner trigger.Owner, vr *v1alpha1.VidraResource) (gathered, *failure) {
	from := vr.Spec.ManifestFrom
	wanted, got := map[sourceKey]map[string]struct{}{}, gathered{versions: map[sourceKey]string{}}
	for _, source := range from {
		key := keyOf(vr, source)
		if wanted[key] == nil {
			wanted[key] = map[string]struct{}{}
		}
		wanted[key][source.Key] = struct{}{}
	}
	// Watched first, so that no change comes between.
	r.sources.sync(owner, r.metadata, wanted)
	if len(from) == 0 {
		return gathered{parts: []part{{text: vr.Spec.Manifest}}}, nil
	}
	got.parts = append(got.parts, part{name: specManifest, text: vr.Spec.Manifest})
	client, user, why := r.accounts.clientOf(ctx, vr, r.local)
	if why != nil {
		return got, why
	}
	reads := subject{cluster: r.local.Name(), user: user}
	read := map[sourceKey]*heldParts{}
	size := len(vr.Spec.Manifest)
	for i, source := range from {
		key := keyOf(vr, source)
		name := fmt.Sprintf("%s, key %s (spec.manifestFrom[%d])", display.Name(key.kind, key.namespace, key.name), source.Key, i)
		unavailable := func(text string) *failure {
			return &failure{v1alpha1.ReasonSourceUnavailable, display.Truncate(name+": "+text, maxMessage)}
		}
		if key.namespace == "" {
			return got, &failure{v1alpha1.ReasonManifestInvalid, name + ": give it a namespace, or set spec.destination.namespace"}
		}
		if _, known := read[key]; !known {
			held, err := readSource(ctx, client, key, wanted[key])
			if err != nil {
				for _, right := range reads.refused(err, key.gvr(), key.namespace, "get") {
					right.Name = key.name // which is all that a role has to name
					got.unreadable = map[access]dynamic.Interface{right: client}
				}
				return got, unavailable(err.Error())
			}
			read[key] = held
		}
		held := read[key]
		got.versions[key] = ""
		text, found := "", false
		if held != nil {
			got.versions[key] = held.version
			text, found = held.texts[source.Key]
		}
		size += len(text)
		switch {
		case size > maxManifest:
			return got, &failure{v1alpha1.ReasonManifestInvalid, name + ": " + oversized(size)}
		case !found && source.Optional:
		case held == nil:
			return got, unavailable("does not exist: create it, or set optional")
		case !found:
			return got, unavailable("does not have this key: add it, or set optional")
		default:
			got.parts = append(got.parts, part{name: name, text: text, secret: key.kind == "Secret"})
		}
	}
	return got, nil
}

// withhold has the values of objects that come from a Secret treated as those of a
// Secret are, unless the manifest says of an object whether they are to be.
func withhold(objects []manifest.Object) {
	for _, object := range objects {
		annotations := object.GetAnnotations()
		if _, said := annotations[ownership.SensitiveAnnotation]; said {
			continue
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[ownership.SensitiveAnnotation] = "true"
		object.SetAnnotations(annotations)
	}
}
