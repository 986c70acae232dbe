package desired

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
)

// InlinePart returns the part of a manifest that the spec of a VidraResource holds.
func InlinePart(vr *v1alpha1.VidraResource) Part {
	return Part{name: specManifest, text: vr.Spec.Manifest}
}

// AvailableParts returns the parts of the manifest of a VidraResource that exist and that client may read. refused is the
// answer for the parts that are forbidden to client; nil if it may read all of them. absent reports that a source is known to be
// absent, which saves the request; optional. It fails if a part may exist and is unreadable now.
func AvailableParts(ctx context.Context, kinds source.Kinds, client dynamic.Interface, scope cluster.Scope, vr *v1alpha1.VidraResource, absent func(source.Key) bool) (
	parts []Part, refused, err error,
) {
	parts = []Part{InlinePart(vr)}
	vars, err := availableVariables(ctx, client, scope, vr)
	if apierrors.IsForbidden(err) {
		return parts, err, nil
	} else if err != nil {
		return nil, nil, err
	}
	for _, key := range source.KeysOf(vr) {
		if len(source.PartsOf(vr, key)) == 0 {
			continue // it has variables alone
		}
		if key.Namespace == "" || scope.Namespace(key.Namespace) != nil {
			continue // without a namespace, the manifest is invalid
		}
		if absent != nil && !source.IsArtifact(key.Kind) && absent(key) {
			continue
		}
		content, err := kinds.Fetch(ctx, source.Request{
			Client: client, Key: key, Parts: source.PartsOf(vr, key), Namespace: vr.Spec.Destination.Namespace, Kustomize: vr.Spec.Kustomize, Variables: vars,
		})
		switch {
		case apierrors.IsForbidden(err):
			refused = err
			continue
		case content == nil && err == nil && source.IsArtifact(key.Kind) && !source.IsOptional(vr, key):
			return nil, nil, source.Absent(fmt.Errorf("%s does not exist", key)) // the artifact of one that is created may have any object
		case content == nil && err == nil:
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("read %s: %w", key, err)
		}
		for _, texts := range content.Parts {
			for _, text := range texts {
				parts = append(parts, Part{text: text.Text})
			}
		}
	}
	return parts, refused, nil
}

// availableVariables returns the variables of a VidraResource, if it may have any.
func availableVariables(ctx context.Context, client dynamic.Interface, scope cluster.Scope, vr *v1alpha1.VidraResource) (source.Variables, error) {
	in := vr.Spec.Destination.Namespace
	if in == "" || scope.Namespace(in) != nil {
		return source.Variables{}, nil //nolint:nilerr // the reconcile reports a namespace out of scope
	}
	vars, _, _, err := source.ReadVariables(ctx, client, vr)
	return vars, err
}

// MayHave reports whether the text of a part of the manifest of a VidraResource, which is unparsable, may have an object: it has the
// name and the kind, and the namespace unless that is the default.
func (p Part) MayHave(vr *v1alpha1.VidraResource, id object.Identity) bool {
	return p.Mentions(id.Name) && strings.Contains(p.text, id.Kind) &&
		(id.Namespace == "" || id.Namespace == cmp.Or(vr.Spec.Destination.Namespace, "default") || p.Mentions(id.Namespace))
}

// Mentions reports whether the text of the part has the name of an object somewhere, as a whole name.
func (p Part) Mentions(name string) bool {
	for text := p.text; ; {
		at := strings.Index(text, name)
		if at < 0 {
			return false
		}
		end := at + len(name)
		if (at == 0 || !inName(text[at-1])) && (end == len(text) || !inName(text[end])) {
			return true
		}
		text = text[at+1:]
	}
}

// inName reports whether a byte can be one of a name of an object, but for dots, which may end a sentence of a comment.
func inName(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-'
}

// identities returns the identities of an object whose kind may be namespaced or cluster-scoped. id has the namespace in the manifest.
func identities(vr *v1alpha1.VidraResource, id object.Identity) []object.Identity {
	namespaced, not := id, id
	namespaced.Namespace, not.Namespace = cmp.Or(id.Namespace, vr.Spec.Destination.Namespace, "default"), ""
	return []object.Identity{namespaced, not}
}

// Identities returns the identities that the object may have once its kind is served.
func (u Unresolved) Identities(vr *v1alpha1.VidraResource) []object.Identity {
	return identities(vr, u.ID)
}
