package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/source"
)

// packed are the parts of a manifest as they are kept.
type packed struct {
	// Spec identifies the fields of the spec that the parts come from.
	Spec      string                  `json:"spec"`
	Artifacts []v1alpha1.SourceStatus `json:"artifacts"`
	// Before are the artifacts of the manifest before this one.
	Before []v1alpha1.SourceStatus `json:"before,omitempty"`
	Parts  []packedPart            `json:"parts"`
	// Namespace is the namespace of the destination, and Account the account with whose rights the parts were read.
	Namespace string `json:"namespace,omitempty"`
	Account   string `json:"account,omitempty"`
}

type packedPart struct {
	Name string `json:"name,omitempty"`
	Text string `json:"text"`
	From *int   `json:"from,omitempty"`
	// Source is the entry of spec.manifestFrom. A later spec may have another one at its place.
	Source *v1alpha1.ManifestSource `json:"source,omitempty"`
	Secret bool                     `json:"secret,omitempty"`
	At     *manifest.Position       `json:"at,omitempty"`
}

// specOf identifies the fields of a spec that the parts of the manifest come from.
func specOf(vr *v1alpha1.VidraResource) string {
	text, _ := json.Marshal([]any{vr.UID, vr.Spec.Manifest, vr.Spec.ManifestFrom, vr.Spec.Kustomize, vr.Spec.Destination.Namespace}) // strings and lists of them
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Pack encodes parts that come from artifacts. digest identifies them. before are the artifacts of the manifest before this one.
func (p Parts) Pack(vr *v1alpha1.VidraResource, before []v1alpha1.SourceStatus) (text []byte, digest string, err error) {
	all := packed{Spec: specOf(vr), Artifacts: p.Artifacts, Namespace: vr.Spec.Destination.Namespace, Account: vr.Spec.ServiceAccountName}
	for _, part := range p.Parts {
		one := packedPart{Name: part.name, Text: part.text, Secret: part.secret}
		for i := range vr.Spec.ManifestFrom {
			if part.source == &vr.Spec.ManifestFrom[i] {
				one.From, one.Source = &i, part.source
			}
		}
		if part.origin != nil {
			one.At = &part.origin.Position
		}
		all.Parts = append(all.Parts, one)
	}
	text, err = json.Marshal(all)
	if err != nil {
		return nil, "", fmt.Errorf("encode the manifest: %w", err)
	}
	sum := sha256.Sum256(text)
	all.Before = before
	text, err = json.Marshal(all)
	return text, hex.EncodeToString(sum[:]), err
}

// Revision identifies the parts of a manifest by their texts.
func (p Parts) Revision() string {
	sum := sha256.New()
	for _, part := range p.Parts {
		text, _ := json.Marshal([]any{part.text, part.secret}) // a string and a boolean
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ErrOtherReader is the error for a revision with parts that were read for another namespace of the destination, or as another account: the
// present one may lack the right to read them.
var ErrOtherReader = errors.New("it has parts of spec.manifestFrom that were read for another spec.destination.namespace or spec.serviceAccountName")

// UnpackRevision returns the parts that Pack encoded, of any spec: the caller compares them with the digest of a revision, or with the
// applied objects. The error is ErrOtherReader, or about the text.
func UnpackRevision(vr *v1alpha1.VidraResource, text []byte) (Parts, error) {
	var all packed
	if err := json.Unmarshal(text, &all); err != nil {
		return Parts{}, fmt.Errorf("decode the manifest: %w", err)
	}
	got := all.unpack(vr)
	for i, one := range all.Parts {
		if one.Source != nil && (all.Namespace != vr.Spec.Destination.Namespace || all.Account != vr.Spec.ServiceAccountName) {
			return Parts{}, ErrOtherReader
		}
		got.Parts[i].source = one.Source
	}
	return got, nil
}

// Unpack returns the parts of one of several texts that Pack encoded: of the artifacts in the status, or of their successors, because the
// status is written after the manifest is kept. It skips texts of another spec, texts that another account read, as the present one may lack the
// right, and texts of older artifacts, which would undo a later manifest.
func Unpack(vr *v1alpha1.VidraResource, texts iter.Seq[[]byte]) (Parts, error) {
	var successor *packed
	for text := range texts {
		var all packed
		if err := json.Unmarshal(text, &all); err != nil {
			return Parts{}, fmt.Errorf("decode the manifest: %w", err)
		}
		switch {
		case all.Spec != specOf(vr), all.Account != vr.Spec.ServiceAccountName:
		case slices.Equal(all.Artifacts, vr.Status.Source):
			return all.unpack(vr), nil
		case successor == nil && slices.Equal(all.Before, vr.Status.Source):
			successor = &all
		}
	}
	if successor == nil {
		return Parts{}, nil
	}
	return successor.unpack(vr), nil
}

func (all *packed) unpack(vr *v1alpha1.VidraResource) Parts {
	got := Parts{Artifacts: all.Artifacts}
	for _, one := range all.Parts {
		part := Part{name: one.Name, text: one.Text, secret: one.Secret}
		if one.From != nil && *one.From < len(vr.Spec.ManifestFrom) {
			part.source = &vr.Spec.ManifestFrom[*one.From]
		}
		if one.At != nil {
			part.origin = &source.Origin{Position: *one.At}
		}
		got.Parts = append(got.Parts, part)
	}
	return got
}
