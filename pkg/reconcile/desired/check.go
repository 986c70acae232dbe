package desired

import (
	"errors"
	"strings"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// NewPart returns a part of a manifest. name is where it comes from, for messages, and secret reports that
// a Secret holds it.
func NewPart(name, text string, secret bool) Part {
	return Part{name: name, text: text, secret: secret}
}

// Check checks the parts of the manifest of a VidraResource, and its ignore rules, as far as that is
// possible without a cluster. Errors about the text are of the type manifest.Errors.
func Check(vr *v1alpha1.VidraResource, parts []Part) error {
	parsed, err := parse(parts)
	if err != nil {
		return err
	}
	if err := empty(parts, parsed); err != nil {
		return err
	}
	if err := holdsItself(vr.Name, nil, parsed); err != nil {
		return err
	}
	rules, err := rulesOf(vr)
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
		ignoredIn(rules.of(u), u)
	}
	if names := rules.unmatched(); len(names) > 0 {
		return errors.New("matches nothing in the manifest: " + strings.Join(names, "; "))
	}
	return nil
}
