package insight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Blame has the lines of an object with their owners.
type Blame struct {
	Lines []BlameLine `json:"lines"`

	// Sources are where the manifests of the owners are.
	Sources []string `json:"-"`
	// Remarks name the hidden parts, with the reasons.
	Remarks []string `json:"-"`
}

// BlameLine is a line of the object.
type BlameLine struct {
	Text string `json:"text"`
	// Pointer is the field that begins on the line, as a JSON pointer; empty for one of more than maxPointer bytes.
	Pointer string `json:"pointer,omitempty"`
	// Manifest is where manifests have the field; Managers are the other field managers that own it.
	Manifest []string      `json:"manifest,omitempty"`
	Managers []LineManager `json:"managers,omitempty"`
	// Edits are the outcomes of edits of the field.
	Edits []Edit `json:"edits,omitempty"`

	// inner reports that the field has others below it.
	inner bool
	path  []string
}

// LineManager is a field manager that owns a line.
type LineManager struct {
	Manager     string      `json:"manager"`
	Subresource string      `json:"subresource,omitempty"`
	Time        metav1.Time `json:"time"`
}

// Blame returns the lines of an object with their owners, or only those that no manifest has: foreign.
func (c *Client) Blame(ctx context.Context, of Target, foreign bool) (*Blame, error) {
	s, err := c.look(ctx, of)
	if err != nil {
		return nil, err
	}
	if s.live == nil {
		if len(s.missing) > 0 {
			return nil, errors.New(s.missing[0])
		}
		return nil, fmt.Errorf("%s does not exist in this cluster", s.id)
	}
	answer := &Blame{}
	remark := func(text string) { answer.Remarks = append(answer.Remarks, text) }
	b := &blamed{subject: s, known: s.disclosure(ctx), writers: ownership.WritersOf(s.live), places: map[string][]string{}, paths: map[string]string{}}
	for _, vr := range s.owners {
		if missing := b.addOwner(ctx, vr); missing != "" {
			remark("not shown is where the manifest has the fields: " + missing)
		}
	}
	for _, missing := range s.missing {
		remark("not shown is " + missing)
	}
	if b.edits, err = s.edits(ctx, remark); err != nil {
		remark("not shown are the last edits: " + err.Error())
	}
	if answer.Lines, err = b.lines(); err != nil {
		return nil, err
	}
	if foreign {
		answer.Lines = foreignLines(answer.Lines)
	}
	answer.Sources = b.sources
	return answer, nil
}

// blamed is the knowledge about the lines of an object.
type blamed struct {
	subject *subject
	// known is the decision about values of the object.
	known   ownership.Disclosure
	writers *ownership.Writers
	edits   []Edit
	// sources are where the manifests of the owners are.
	sources []string
	// places are where a manifest has a field, by its JSON pointer in the object; paths are the fields as
	// Events name them.
	places map[string][]string
	paths  map[string]string
}

// addOwner adds the places of the fields in the manifest of an owner. It returns the obstacle if they are unknown.
func (b *blamed) addOwner(ctx context.Context, vr *v1alpha1.VidraResource) (missing string) {
	manager := signature(vr).Manager
	located, missing := b.subject.locate(ctx, vr)
	var configuration map[string]any
	if located != nil {
		configuration = located.located.Object.Object
		source := "spec.manifest of VidraResource " + vr.Name
		if located.located.Source() != nil {
			source = located.located.Object.Position.Source
		}
		b.sources = append(b.sources, vr.Name+": "+source)
	}
	live, liveAbove := ownership.FieldsOf(b.subject.live, manager, b.subject.live.Object, b.known)
	conf, confAbove := ownership.FieldsOf(b.subject.live, manager, configuration, b.known)
	live, conf = append(live, liveAbove...), append(conf, confAbove...)
	for i, field := range live { // both are of the same paths, in the same order
		if field.Tokens == nil {
			continue
		}
		place := vr.Name
		switch {
		case located != nil && conf[i].Tokens != nil:
			at := manifest.Position{Document: located.located.Object.Position.Document, Line: located.located.Line(conf[i].Tokens...)}
			place += ": " + at.String()
			if located.overridden(conf[i].Tokens) {
				place += " (overridden)"
			}
		case located != nil:
			place += " (by Vidra)" // the label and the annotation that mark the object
		}
		if pointer := pointerTo(field.Tokens); pointer != "" {
			b.places[pointer] = append(b.places[pointer], place)
			b.paths[pointer] = field.Path
		}
	}
	return missing
}

// maxPointer bounds the bytes of a JSON pointer: an object may have thousands of fields below a long name.
const maxPointer = 4 << 10

// pointerTo returns a path as a JSON pointer; empty for a longer one than maxPointer.
func pointerTo(path []string) string {
	size := 0
	for _, token := range path {
		size += 1 + len(token)
	}
	if size > maxPointer {
		return ""
	}
	return ownership.Field{Tokens: path}.Pointer()
}

// lines are the lines of the object, with their owners.
func (b *blamed) lines() ([]BlameLine, error) {
	obj := ownership.Mask(b.subject.live, b.known, func([]string, any) any { return mask })
	unstructured.RemoveNestedField(obj.Object, "metadata", "managedFields")
	text, err := sigsyaml.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", b.subject.id, err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("read %s again: %w", b.subject.id, err)
	}
	var lines []BlameLine
	for line := range strings.Lines(string(text)) {
		lines = append(lines, BlameLine{Text: strings.TrimSuffix(line, "\n")})
	}
	begin(root.Content[0], nil, lines)
	for i := range lines {
		b.attribute(&lines[i])
	}
	b.addEdits(lines)
	return lines, nil
}

// begin sets the paths of the first lines of the fields of a node: if there are several, the path of the innermost.
func begin(n *yaml.Node, path []string, lines []BlameLine) {
	for i, child := range n.Content {
		at := append(slices.Clone(path), fmt.Sprint(i))
		if n.Kind == yaml.MappingNode {
			if i%2 == 1 {
				continue
			}
			at[len(path)] = child.Value
		}
		line := &lines[child.Line-1]
		if child.Kind == yaml.ScalarNode || len(child.Content) == 0 {
			line.path = at
		}
		below := child
		if n.Kind == yaml.MappingNode {
			below = n.Content[i+1]
			line.inner = len(below.Content) > 0
		}
		begin(below, at, lines)
	}
}

// attribute adds the owners of a line.
func (b *blamed) attribute(line *BlameLine) {
	if line.path == nil {
		return
	}
	line.Pointer = pointerTo(line.path)
	if line.inner {
		return
	}
	line.Manifest = b.places[line.Pointer]
	if line.Manifest == nil {
		line.Manifest = b.places[pointerTo(b.writers.Whole(line.path...))]
	}
	for _, w := range b.writers.Of(line.path...) {
		if b.subject.isAppliedBy(w.Manager, w.Operation) {
			if line.Manifest == nil { // a VidraResource that may not be read
				name, _ := v1alpha1.ParseFieldManager(w.Manager)
				line.Manifest = append(line.Manifest, name)
			}
			continue
		}
		line.Managers = append(line.Managers, LineManager{Manager: w.Manager, Subresource: w.Subresource, Time: metav1.NewTime(w.Time)})
	}
}

// addEdits adds each edit to the first lines of its fields: of an item, a map or a list, the first one. An edit of fields
// without a line, because the API server keeps no empty list, is added to the field above.
func (b *blamed) addEdits(lines []BlameLine) {
	for _, e := range b.edits {
		added, above := map[int]bool{}, ""
		add := func(pointer string) {
			i := slices.IndexFunc(lines, func(line BlameLine) bool {
				return line.Pointer == pointer || strings.HasPrefix(line.Pointer, pointer+"/")
			})
			if i >= 0 && !added[i] {
				lines[i].Edits, added[i] = append(lines[i].Edits, e), true
			}
		}
		for pointer, path := range b.paths {
			switch {
			case listed(e.Fields, path):
				add(pointer)
			case strings.Contains(","+e.Fields, ","+path+".") && len(path) > len(b.paths[above]):
				above = pointer
			}
		}
		if len(added) == 0 && above != "" {
			add(above)
		}
	}
}

// foreignLines are the lines of fields that no manifest has, with the lines above them. Fields that the API server writes
// itself are left out.
func foreignLines(lines []BlameLine) []BlameLine {
	shown := make([]bool, len(lines))
	var above []int
	for i, line := range lines {
		if line.path == nil {
			shown[i] = i > 0 && shown[i-1] && !lines[i-1].inner // the rest of a text of several lines
			continue
		}
		for len(above) > 0 && !isBelow(line.path, lines[above[len(above)-1]].path) {
			above = above[:len(above)-1]
		}
		if line.inner {
			above = append(above, i)
			continue
		}
		if len(line.Manifest) > 0 || len(line.Managers) == 0 || line.path[0] == "status" {
			continue
		}
		shown[i] = true
		for _, j := range above {
			shown[j] = true
		}
	}
	var kept []BlameLine
	for i, line := range lines {
		if shown[i] {
			kept = append(kept, line)
		}
	}
	return kept
}

// isBelow reports whether a path is below another one.
func isBelow(path, above []string) bool {
	return len(path) > len(above) && slices.Equal(path[:len(above)], above)
}
