package reconcile

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

const (
	// sealedPrefix is what a sealed text begins with: the version of the algorithm.
	sealedPrefix = "h1:"
	// digestKeyBytes is how long a key is at least.
	digestKeyBytes = 32
	// sealedID and sealedTag are the bytes of a sealed text that tell its key, and that are
	// the HMAC of what is sealed.
	sealedID, sealedTag = 4, 16
)

// digestKeys seal what the status says of objects with values that are never shown, so that no reader can
// guess a value from it who has no key. What is sealed is the HMAC-SHA256 of the text,
// and the text itself masked with another HMAC, so that an operator that starts again
// finds out what it had applied without reading the objects (the construction is SIV, see
// RFC 5297). The same text at the same place is sealed the same way, so that a status
// does not change without need. All keys open; the first one seals.
type digestKeys [][]byte

// randomDigestKey makes a key.
func randomDigestKey() []byte {
	key := make([]byte, digestKeyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}

// seal seals a text of at most 32 bytes for a place.
func (k digestKeys) seal(place, text string) string {
	key := k[0]
	sealed := append(keyID(key), tagOf(key, place, text)...)
	sealed = append(sealed, mask(key, sealed[sealedID:], text)...)
	return sealedPrefix + base64.RawURLEncoding.EncodeToString(sealed)
}

// open returns what was sealed for a place. It fails if the key is not known.
func (k digestKeys) open(place, sealed string) (text string, ok bool) {
	encoded, found := strings.CutPrefix(sealed, sealedPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if !found || err != nil || len(raw) < sealedID+sealedTag || len(raw) > sealedID+sealedTag+sha256.Size {
		return "", false
	}
	id, tag, masked := raw[:sealedID], raw[sealedID:sealedID+sealedTag], raw[sealedID+sealedTag:]
	for _, key := range k {
		if !hmac.Equal(id, keyID(key)) {
			continue
		}
		text := string(mask(key, tag, string(masked)))
		if hmac.Equal(tag, tagOf(key, place, text)) {
			return text, true
		}
	}
	return "", false
}

// keyID tells keys apart.
func keyID(key []byte) []byte { return hmacOf(key, "id")[:sealedID] }

// tagOf is the HMAC of a text at a place.
func tagOf(key []byte, place, text string) []byte {
	return hmacOf(key, "tag", place, text)[:sealedTag]
}

// mask masks a text, or removes the mask.
func mask(key, tag []byte, text string) []byte {
	masked := hmacOf(key, "mask", string(tag))[:len(text)]
	for i := range masked {
		masked[i] ^= text[i]
	}
	return masked
}

// hmacOf is the HMAC-SHA256 of parts that hold no zero byte, but for the last one.
func hmacOf(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(strings.Join(parts, "\x00"))) // it never fails
	return h.Sum(nil)
}

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
		if !strings.HasPrefix(text, sealedPrefix) {
			return text
		}
		o.sealed = &sealedEntry{}
		if plain, ok := s.keys.open(place, text); ok {
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
	return s.keys.seal(place, text)
}
