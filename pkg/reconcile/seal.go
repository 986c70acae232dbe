package reconcile

import (
	"context"
	"crypto/sha256"
	"strings"

	"github.com/go-logr/logr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
)

// sealedEntry is what the status says of an object with values that are never shown.
type sealedEntry struct {
	// digest and configuration are what is sealed; sealed has them sealed.
	digest, configuration string
	sealed                v1alpha1.ManagedResourceStatus
}

// places are where the texts of an inventory entry stand: no text is at two of them.
func (s *vrState) places(e *v1alpha1.ManagedResourceStatus) (digest, configuration string) {
	id := identityOf(e)
	place := strings.Join([]string{string(s.uid), id.Group, id.Kind, id.namespace, id.name}, "/")
	return "digest/" + place, "configuration/" + place
}

// unseal opens the inventory entry of an object as the status has it. What cannot be opened
// is as if an older Vidra had written it.
func (s *vrState) unseal(o *objectState) {
	e := o.entry
	digest, configuration := s.places(e)
	open := func(place, text string, otherwise string) string {
		if !strings.HasPrefix(text, seal.Prefix) {
			return text
		}
		o.sealed = &sealedEntry{}
		if plain, ok := s.keys.Open(place, text); ok {
			return plain
		}
		return otherwise
	}
	e.Digest = open(digest, e.Digest, ownership.UnknownDigest)
	e.Configuration = open(configuration, e.Configuration, "")
	if e.Recreated != nil {
		e.Recreated = &v1alpha1.RecreatedStatus{Configuration: open(configuration, e.Recreated.Configuration, ""), UID: e.Recreated.UID}
	}
}

// seal returns the inventory entry of an object as the status has it.
func (s *vrState) seal(o *objectState) v1alpha1.ManagedResourceStatus {
	e := o.entry
	if o.sealed == nil {
		if o.id.GroupKind != secretKind && (o.desired == nil || !o.desired.withholds) {
			return *e
		}
		o.sealed = &sealedEntry{}
	}
	known := o.sealed
	if known.digest != e.Digest || known.configuration != e.Configuration {
		known.digest, known.configuration = e.Digest, e.Configuration
		digest, configuration := s.places(e)
		known.sealed.Digest, known.sealed.Configuration = s.sealText(digest, e.Digest), s.sealText(configuration, e.Configuration)
	}
	sealed := *e
	sealed.Digest, sealed.Configuration = known.sealed.Digest, known.sealed.Configuration
	if e.Recreated != nil { // seldom, so it is not remembered
		_, configuration := s.places(e)
		sealed.Recreated = &v1alpha1.RecreatedStatus{Configuration: s.sealText(configuration, e.Recreated.Configuration), UID: e.Recreated.UID}
	}
	return sealed
}

func (s *vrState) sealText(place, text string) string {
	switch {
	case text == "":
		return ""
	case text == ownership.UnknownDigest, len(text) > sha256.Size: // somebody else wrote the status
		return ownership.UnknownDigest
	}
	return s.keys.Seal(place, text)
}

// digestKeys returns the keys of the reconciler.
func (r *Reconciler) digestKeys(ctx context.Context) (seal.Keys, error) {
	r.mu.Lock()
	if r.DigestKeys == nil {
		r.DigestKeys = &seal.Store{Log: logr.Discard()}
	}
	keys := r.DigestKeys
	r.mu.Unlock()
	return keys.Get(ctx)
}
