package desired

import (
	"errors"
	"hash/maphash"
	"unique"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/source"
)

// maxManifest is how many bytes all parts of a manifest have at most.
const maxManifest = 8 << 20

// Part is a part of a manifest.
type Part struct {
	// name is where it comes from, for messages; empty if there is only one.
	name string
	text string
	// source is the entry of spec.manifestFrom; nil for spec.manifest.
	source *v1alpha1.ManifestSource
	// secret reports that it has values of a Secret, so that errors must leave out its text.
	secret bool
	// origin is the place of its one object in the file that the text was made of; nil if the text is the file.
	origin *source.Origin
	// file is its path in an artifact; empty for other parts.
	file string
}

// specManifest is the name of the part that spec.manifest holds, where there are others.
const specManifest = "spec.manifest"

// place is where a manifest has an object. Objects of a part share its name.
type place struct {
	part           unique.Handle[string]
	document, line int32
}

func placeOf(at manifest.Position) place {
	// A manifest has at most maxManifest bytes.
	return place{part: unique.Make(at.Source), document: int32(at.Document), line: int32(at.Line)} //nolint:gosec // see above
}

// In returns where the manifest of a VidraResource has the object: the part, the document and the line.
func (p place) In(vr *v1alpha1.VidraResource) string {
	at := manifest.Position{Source: p.part.Value(), Document: int(p.document), Line: int(p.line)}
	if at.Source == "" || at.Source == specManifest {
		at.Source = display.Name(specManifest+" of "+v1alpha1.Kind, "", vr.Name)
	}
	return at.String()
}

// parse reads the objects of all parts of a manifest, in the order of the parts.
func parse(parts []Part) ([]manifest.Object, error) {
	var all []manifest.Object
	values := 0
	for _, p := range parts {
		objects, err := manifest.Parse(p.text, manifest.Options{Source: p.name, Objects: len(all), Values: values, Artifact: p.source != nil && source.IsArtifact(p.source.Kind)})
		problems, _ := errors.AsType[manifest.Errors](err)
		for _, problem := range problems {
			problem.Position = p.placed(problem.Position)
			if p.secret {
				problem.Message = "cannot be read (what is wrong is withheld, because it may quote the Secret)"
			}
		}
		if err != nil {
			return nil, err
		}
		if p.secret {
			withhold(objects)
		}
		for i := range objects {
			values += objects[i].Values
			objects[i].Position = p.placed(objects[i].Position)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// placed returns the place of an object in the file that the text was made of.
func (p Part) placed(at manifest.Position) manifest.Position {
	if p.origin == nil {
		return at
	}
	origin := p.origin.Position
	origin.Source = at.Source
	return origin
}

// SumOfParts returns a hash of the texts of parts.
func SumOfParts(seed maphash.Seed, parts []Part) uint64 {
	var sum maphash.Hash
	sum.SetSeed(seed)
	for _, p := range parts {
		maphash.WriteComparable(&sum, p.text)
	}
	return sum.Sum64()
}

// WeightOfParts is the weight of the parts of a manifest; see limits.HeavyShare.
func WeightOfParts(parts []Part) int64 {
	weight := int64(0)
	for _, p := range parts {
		weight += manifest.Weight(p.text)
	}
	return weight
}
