package ownership

import (
	"cmp"
	"fmt"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// step is a path on which a walk is, as its last element and the path above. The paths of one walk share those above, so that their memory grows with
// their number and not with their length. The step at the top has no element.
type step struct {
	above   *step
	element fieldpath.PathElement
	depth   int
	// hash is the hash of the path in managedFields; 0 on a walk without it.
	hash pathHash
	// written is the path in a Change, and parts are the parts that the entries of a walker own there; nil until they are needed.
	written *written
	parts   []part
}

// written is the last element of a path as a Change has it.
type written struct {
	// text is the element, and at the place of its value.
	text string
	at   place
	// size and pointer are the lengths of the whole path, as a text and as a JSON pointer, without the escapes. A path through a list has no pointer.
	size, pointer int
	inList        bool
	// hash is the hash of the whole path.
	hash pathHash
}

// child is the path that is longer by an element.
func (s *step) child(element fieldpath.PathElement) *step {
	return &step{above: s, element: element, depth: s.depth + 1}
}

// write returns the last element of the path. withheld is the same for all steps of a walk.
func (s *step) write(withheld bool) *written {
	switch {
	case s.written != nil:
	case s.above == nil:
		s.written = &written{}
	default:
		above := s.above.write(withheld)
		w := written{text: renderElement(s.element, above.at, withheld), at: above.at.child(s.element), inList: above.inList || s.element.FieldName == nil}
		w.size, w.hash = above.size+1+len(w.text), above.hash.child(w.text)
		if !w.inList {
			w.pointer = above.pointer + 1 + len(*s.element.FieldName)
		}
		s.written = &w
	}
	return s.written
}

// text is the path as kubectl writes it. Of a path of more than maxPath bytes it is the end, behind a hash of the rest: each path has its own text.
func (s *step) text(withheld bool) string {
	size, end := s.write(withheld).size, s.above
	for end.above != nil && size-end.above.written.size <= maxPath {
		end = end.above
	}
	var b strings.Builder
	if end.above != nil {
		fmt.Fprintf(&b, "%s%016x", display.Ellipsis, uint64(end.written.hash))
	}
	s.textBelow(end, &b)
	return b.String()
}

// textBelow appends the elements below a step above.
func (s *step) textBelow(end *step, b *strings.Builder) {
	if s != end {
		s.above.textBelow(end, b)
		appendElement(b, s.written.text)
	}
}

// jsonPointer is the path as a JSON pointer; empty if it leads through a list, or has more than maxPath bytes.
func (s *step) jsonPointer(withheld bool) string {
	if w := s.write(withheld); w.inList || w.pointer > maxPath {
		return ""
	}
	names := make([]string, s.depth)
	for at := s; at.above != nil; at = at.above {
		names[at.depth-1] = *at.element.FieldName
	}
	return Field{Tokens: names}.Pointer()
}

// compare returns the order of two paths, both with hashes.
func (s *step) compare(other *step) int {
	a, b := s, other
	for a.depth > b.depth {
		a = a.above
	}
	for b.depth > a.depth {
		b = b.above
	}
	if a.hash == b.hash {
		return cmp.Compare(s.depth, other.depth)
	}
	for a.above.hash != b.above.hash {
		a, b = a.above, b.above
	}
	return a.element.Compare(b.element)
}

// built is a set that is made of paths, with its parts at those above them.
type built struct {
	set   *fieldpath.Set
	parts map[*step]*fieldpath.Set
}

func newBuilt() *built { return &built{fieldpath.NewSet(), map[*step]*fieldpath.Set{}} }

// at returns the part of the set at a path.
func (b *built) at(path *step) *fieldpath.Set {
	if path.above == nil {
		return b.set
	}
	part := b.parts[path]
	if part == nil {
		part = b.at(path.above).Children.Descend(path.element)
		b.parts[path] = part
	}
	return part
}

// insert adds a path.
func (b *built) insert(path *step) { b.at(path.above).Members.Insert(path.element) }

// part is the part of an entry at a path: a set there, or nothing but a field above the path as a whole.
type part struct {
	set   *fieldpath.Set
	whole bool
}

// partsAt returns the parts of the entries at a path.
func (w *walker) partsAt(s *step) []part {
	if s.parts != nil {
		return s.parts
	}
	s.parts = make([]part, len(w.entries))
	if s.above == nil {
		for i, e := range w.entries {
			s.parts[i].set = e.all()
		}
		return s.parts
	}
	for i, above := range w.partsAt(s.above) {
		s.parts[i] = above
		if above.set == nil {
			continue
		}
		below, nested := above.set.Children.Get(s.element)
		s.parts[i] = part{below, !nested && above.set.Members.Has(s.element)}
	}
	return s.parts
}

// owns reports whether the entry has an element of its part or something in it, or else a field above it without its contents.
func (p part) owns(element fieldpath.PathElement) (itself, above bool) {
	if p.set == nil {
		return false, p.whole
	}
	_, nested := p.set.Children.Get(element)
	return nested || p.set.Members.Has(element), false
}
