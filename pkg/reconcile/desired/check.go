package desired

import (
	"errors"
	"strings"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/source"
)

// NewPart returns a part of a manifest. name is where it comes from, for messages, and secret reports that
// a Secret holds it.
func NewPart(name, text string, secret bool) Part {
	return Part{name: name, text: text, secret: secret}
}

// PartsOf returns the parts of the manifest of a VidraResource whose entries of spec.manifestFrom have these texts.
func PartsOf(vr *v1alpha1.VidraResource, texts []string) []Part {
	if len(vr.Spec.ManifestFrom) == 0 {
		return []Part{{text: vr.Spec.Manifest}}
	}
	parts := []Part{InlinePart(vr)}
	for i, from := range vr.Spec.ManifestFrom {
		parts = append(parts, partOf(vr, i, partName(source.KeyOf(vr, from), source.LabelOf(from), i), source.Text{Text: texts[i]}))
	}
	return parts
}

// Check checks the parts of the manifest of a VidraResource, and its ignore rules, as far as that is
// possible without a cluster. Errors about the text are of the type manifest.Errors.
func Check(vr *v1alpha1.VidraResource, parts []Part) error {
	parsed, rules, err := checked(vr, nil, parts)
	if err != nil {
		return err
	}
	for _, obj := range parsed {
		u := obj.DeepCopy()
		for _, r := range rules.given {
			if u.GetNamespace() == "" && r.spec.Target.Namespace == vr.Spec.Destination.Namespace {
				u.SetNamespace(vr.Spec.Destination.Namespace) // as the object has it if its kind is namespaced
			}
		}
		matchedIn(rules.of(u), u, rules.steps)
	}
	if err := (Exemptions)(nil).fit(rules.steps, 0); err != nil {
		return err
	}
	if names := rules.unmatched(); len(names) > 0 {
		return errors.New("matches nothing in the manifest: " + strings.Join(names, "; "))
	}
	return nil
}

// checked returns the objects of the parts of the manifest of a VidraResource, which holders hold, and its ignore rules. It fails for an
// unreadable, an empty and a recursive manifest, and for unreadable rules.
func checked(vr *v1alpha1.VidraResource, holders []string, parts []Part) ([]manifest.Object, rules, error) {
	parsed, err := parse(parts)
	if err != nil {
		return nil, rules{}, err
	}
	if err := empty(parts, parsed); err != nil {
		return nil, rules{}, err
	}
	if err := holdsItself(vr.Name, holders, parsed); err != nil {
		return nil, rules{}, err
	}
	given, err := rulesOf(vr)
	return parsed, given, err
}
