package seal

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

const (
	// Prefix begins a sealed text: the version of the algorithm.
	Prefix = "h1:"
	// digestKeyBytes is how long a key is at least.
	digestKeyBytes = 32
	// sealedID and sealedTag are the bytes of a sealed text that identify its key, and that are the HMAC of the sealed
	// content.
	sealedID, sealedTag = 4, 16
	// MaxText is how many bytes a text has at most.
	MaxText = 512
)

// Keys seal the parts of the status about objects with withheld values, so that no reader without a key can guess a value from
// it. A sealed text is the HMAC-SHA256 of the text, and the text itself masked with another HMAC, so that an operator that
// starts again knows its last apply without reading the objects (the construction is SIV, see RFC 5297). The same text at the
// same place is sealed the same way, so that a status changes only when needed. All keys open; the first one seals.
type Keys [][]byte

// NewKey makes a key.
func NewKey() []byte {
	key := make([]byte, digestKeyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}

// Seal seals a text of at most MaxText bytes for a place.
func (k Keys) Seal(place, text string) string {
	key := k[0]
	sealed := append(keyID(key), tagOf(key, place, text)...)
	sealed = append(sealed, mask(key, sealed[sealedID:], text)...)
	return Prefix + base64.RawURLEncoding.EncodeToString(sealed)
}

// Open returns the text that was sealed for a place. It fails if the key is unknown.
func (k Keys) Open(place, sealed string) (text string, ok bool) {
	encoded, found := strings.CutPrefix(sealed, Prefix)
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if !found || err != nil || len(raw) < sealedID+sealedTag || len(raw) > sealedID+sealedTag+MaxText {
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

// keyID distinguishes keys.
func keyID(key []byte) []byte { return hmacOf(key, "id")[:sealedID] }

// tagOf is the HMAC of a text at a place.
func tagOf(key []byte, place, text string) []byte {
	return hmacOf(key, "tag", place, text)[:sealedTag]
}

// mask masks a text, or removes the mask.
func mask(key, tag []byte, text string) []byte {
	stream := hmacOf(key, "mask", string(tag))
	for len(stream) < len(text) { // each block comes from all before it
		stream = append(stream, hmacOf(key, "mask", string(tag), string(stream))...)
	}
	masked := stream[:len(text)]
	for i := range masked {
		masked[i] ^= text[i]
	}
	return masked
}

// hmacOf is the HMAC-SHA256 of parts that are free of zero bytes, except the last one.
func hmacOf(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(strings.Join(parts, "\x00"))) // it never fails
	return h.Sum(nil)
}
