package reconcile

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
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

// gather reads the parts of the manifest, and which versions of its sources they are.
func (p *pass) gather(ctx context.Context) (parts []part, versions map[sourceKey]string, why *failure) {
	from := p.vr.Spec.ManifestFrom
	wanted, versions := map[sourceKey]map[string]struct{}{}, map[sourceKey]string{}
	p.state.unreadable = nil
	for _, source := range from {
		key := keyOf(p.vr, source)
		if wanted[key] == nil {
			wanted[key] = map[string]struct{}{}
		}
		wanted[key][source.Key] = struct{}{}
	}
	// Watched first, so that no change comes between.
	p.sources.sync(p.owner, p.Metadata, wanted)
	if len(from) == 0 {
		return []part{{text: p.vr.Spec.Manifest}}, nil, nil
	}
	parts = append(parts, part{name: "spec.manifest", text: p.vr.Spec.Manifest})
	client, user, why := p.clientOf(ctx, p.Local)
	if why != nil {
		return nil, nil, why
	}
	reader := subject{cluster: p.Local.Name(), user: user}
	read := map[sourceKey]*heldParts{}
	size := len(p.vr.Spec.Manifest)
	for i, source := range from {
		key := keyOf(p.vr, source)
		name := fmt.Sprintf("%s %s/%s, key %s (spec.manifestFrom[%d])", key.kind, key.namespace, key.name, source.Key, i)
		unavailable := func(text string) *failure {
			return &failure{v1alpha1.ReasonSourceUnavailable, events.Truncate(name+": "+text, maxMessage)}
		}
		if key.namespace == "" {
			return nil, nil, &failure{v1alpha1.ReasonManifestInvalid, name + ": give it a namespace, or set spec.destination.namespace"}
		}
		if _, known := read[key]; !known {
			held, err := readSource(ctx, client, key, wanted[key])
			if err != nil {
				for _, right := range reader.refused(err, key.gvr(), key.namespace, "get") {
					right.Name = key.name // which is all that a role has to name
					p.state.unreadable = map[access]dynamic.Interface{right: client}
				}
				return nil, nil, unavailable(err.Error())
			}
			read[key] = held
		}
		held := read[key]
		versions[key] = ""
		text, found := "", false
		if held != nil {
			versions[key] = held.version
			text, found = held.texts[source.Key]
		}
		size += len(text)
		switch {
		case size > maxManifest:
			return nil, nil, &failure{v1alpha1.ReasonManifestInvalid, name + ": " + oversized(size)}
		case !found && source.Optional:
		case held == nil:
			return nil, nil, unavailable("does not exist: create it, or set optional")
		case !found:
			return nil, nil, unavailable("does not have this key: add it, or set optional")
		default:
			parts = append(parts, part{name: name, text: text, secret: key.kind == "Secret"})
		}
	}
	return parts, versions, nil
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
