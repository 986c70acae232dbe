package plan

import (
	"crypto/sha256"
	"strings"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
)

// SealedEntry is the part of the status about an object with withheld values.
type SealedEntry struct {
	// digest, configuration and others are to be sealed; sealed has them sealed.
	digest, configuration, others string
	sealed                        v1alpha1.ManagedResourceStatus
}

// Places are where the texts of an inventory entry stand: each text has a place of its own.
func (s *State) Places(e *v1alpha1.ManagedResourceStatus) (digest, configuration string) {
	return s.place("digest", e), s.place("configuration", e)
}

// place returns the place of one text of an inventory entry.
func (s *State) place(text string, e *v1alpha1.ManagedResourceStatus) string {
	id := object.IdentityOf(e)
	return strings.Join([]string{text, string(s.UID), id.Group, id.Kind, id.Namespace, id.Name}, "/")
}

// unseal opens the inventory entry of an object as the status has it. A part that fails to open counts as the work of an
// older Vidra.
func (s *State) unseal(o *Object) {
	e := o.Entry
	digest, configuration := s.Places(e)
	open := func(place, text string, otherwise string) string {
		if !strings.HasPrefix(text, seal.Prefix) {
			return text
		}
		o.Sealed = &SealedEntry{}
		if plain, ok := s.Keys.Open(place, text); ok {
			return plain
		}
		return otherwise
	}
	e.Digest = open(digest, e.Digest, ownership.UnknownDigest)
	e.Configuration = open(configuration, e.Configuration, "")
	e.Others = open(s.place("others", e), e.Others, "")
	if e.Recreated != nil {
		e.Recreated = &v1alpha1.RecreatedStatus{Configuration: open(configuration, e.Recreated.Configuration, ""), UID: e.Recreated.UID}
	}
}

// seal returns the inventory entry of an object as the status has it.
func (s *State) seal(o *Object) v1alpha1.ManagedResourceStatus {
	e := o.Entry
	if o.Sealed == nil {
		if o.ID.GroupKind != object.SecretKind && !e.Sensitive && (o.Desired == nil || !o.Desired.Secrecy.Withholds) {
			return *e
		}
		o.Sealed = &SealedEntry{}
	}
	known := o.Sealed
	if known.digest != e.Digest || known.configuration != e.Configuration {
		known.digest, known.configuration = e.Digest, e.Configuration
		digest, configuration := s.Places(e)
		known.sealed.Digest, known.sealed.Configuration = s.sealText(digest, e.Digest), s.sealText(configuration, e.Configuration)
	}
	if known.others != e.Others {
		known.others, known.sealed.Others = e.Others, ""
		if e.Others != "" && len(e.Others) <= seal.MaxText { // otherwise another client wrote the status
			known.sealed.Others = s.Keys.Seal(s.place("others", e), e.Others)
		}
	}
	sealed := *e
	sealed.Others = known.sealed.Others
	sealed.Digest, sealed.Configuration = known.sealed.Digest, known.sealed.Configuration
	if e.Recreated != nil { // seldom, so it is not remembered
		_, configuration := s.Places(e)
		sealed.Recreated = &v1alpha1.RecreatedStatus{Configuration: s.sealText(configuration, e.Recreated.Configuration), UID: e.Recreated.UID}
	}
	return sealed
}

func (s *State) sealText(place, text string) string {
	switch {
	case text == "":
		return ""
	case text == ownership.UnknownDigest, len(text) > sha256.Size: // another client wrote the status
		return ownership.UnknownDigest
	}
	return s.Keys.Seal(place, text)
}
