package events

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// MaxNote is the maximum length of a note in bytes. The API server rejects an Event whose note
// has more than 1,024 (k8s.io/kubernetes/pkg/apis/core/validation, NoteLengthLimit).
const MaxNote = 1000

// minText is how many bytes of a part are kept at least, after the name of its object.
const minText = 24

// maxDescribed is how many bytes describe changes at least, if there are more changes. Notes and messages show fewer.
const maxDescribed = 4 << 10

// maxFieldPath is the maximum length of the field path of a reference in bytes.
const maxFieldPath = 256

// Name returns the name of an object in messages: kind, namespace and name. A kind that has the name of one of Kubernetes gets its group.
func Name(ref corev1.ObjectReference) string {
	return display.NameOf(ref.GroupVersionKind().GroupKind(), ref.Namespace, ref.Name)
}

// qualified is Name with the group in any case.
func qualified(ref corev1.ObjectReference) string {
	return display.QualifiedNameOf(ref.GroupVersionKind().GroupKind(), ref.Namespace, ref.Name)
}

// name is the name of the object in notes.
func (c Change) name() string {
	if c.ambiguous {
		return qualified(c.Object)
	}
	return Name(c.Object)
}

// BriefNote returns the note of an Event about an edit of an object without the name of the object at its begin and the
// place of the change at its end.
func BriefNote(note string, ref corev1.ObjectReference) string {
	note = display.Line(note)
	for _, name := range []string{Name(ref), qualified(ref)} { // the name of a Role may have any character
		note = strings.TrimPrefix(note, display.Line(name)+": ")
	}
	note, _, _ = strings.Cut(note, keepBegin)
	return display.Truncate(note, MaxNote)
}

// HistoryMessage returns the note of an Event about an object as the history of the VidraResource has it.
func HistoryMessage(note string, ref corev1.ObjectReference) string {
	return display.Truncate(BriefNote(note, ref), v1alpha1.MaxHistoryMessage)
}

// Fields reports the reverted fields, and the author of their change.
func Fields(changes []ownership.Change) string {
	return describe(changes, ". ", maxDescribed, func(i int, c ownership.Change) string {
		part := field(c)
		if i > 0 { // each is a sentence
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		return part
	})
}

// describe joins the texts of changes, until they have so many bytes: a text that is shortened later needs no more.
func describe(changes []ownership.Change, between string, enough int, text func(i int, c ownership.Change) string) string {
	var b strings.Builder
	for i, c := range changes {
		if i > 0 {
			b.WriteString(between)
		}
		if b.Len() > enough {
			b.WriteString(more(len(changes) - i))
			break
		}
		b.WriteString(text(i, c))
	}
	return b.String()
}

// field reports one change as a sentence without its period.
func field(c ownership.Change) string {
	what, to, by, through := c.Path, cmp.Or(c.Restored, "nothing"), cmp.Or(c.By(), "another field manager"), ""
	if c.Subresource != "" {
		through = " through " + c.Subresource
	}
	if c.Withheld {
		what += " (values withheld)"
	}
	switch {
	case c.Kind == ownership.Added && c.By() == "":
		return "removed " + what + "; it had been added (the API server records no field manager for it, as for a default)"
	case c.Kind == ownership.Added && c.Withheld:
		return fmt.Sprintf("removed %s; %s had added it", what, by)
	case c.Kind == ownership.Added:
		return fmt.Sprintf("removed %s; %s had added it as %s", what, by, c.Found)
	case c.Kind == ownership.Removed && c.By() == "":
		return "restored " + valued(what, " to ", to, c) + "; it had been removed (the API server does not record who removes a field)"
	case c.Kind == ownership.Removed:
		return "restored " + valued(what, " to ", to, c) + "; " + by + " had removed it"
	case c.Kind == ownership.Taken && c.By() == "":
		return "took ownership of " + valued(what, " = ", to, c) + " again; it had been removed from metadata.managedFields"
	case c.Kind == ownership.Taken:
		return "took ownership of " + valued(what, " = ", to, c) + " again; " + by + " had owned it"
	case c.Withheld, c.Found == "":
		return "reverted " + valued(what, " to ", to, c) + "; " + by + " had changed it" + through
	default:
		return fmt.Sprintf("reverted %s to %s; %s had set it to %s%s", what, to, by, c.Found, through)
	}
}

// valued returns a field with its value, unless the value is withheld.
func valued(what, sign, value string, c ownership.Change) string {
	if c.Withheld {
		return what
	}
	return what + sign + value
}

// fieldPath returns a field path that makes Events about different fields of an object
// different series, because a series keeps only its first note.
func fieldPath(changes []ownership.Change) string {
	paths := describe(changes, ",", maxFieldPath, func(_ int, c ownership.Change) string { return c.Path })
	return display.Truncate(strings.ToValidUTF8(paths, string(utf8.RuneError)), maxFieldPath)
}

// separator stands between the problems in a message.
const separator = "; "

// part is the part of a message about one object.
type part struct {
	// object is its name; empty if the part is about no object.
	object, text string
}

func (p part) String() string {
	if p.object == "" {
		return p.text
	}
	return p.object + ": " + p.text
}

// more stands for n parts that are omitted.
func more(n int) string { return fmt.Sprintf("and %d more", n) }

// join joins parts of a message in at most room bytes. It shortens long parts evenly, but keeps
// the name of each object. If that is still too long, it omits parts and adds their number.
func join(parts []part, room int) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.String()
	}
	for n := len(parts); n > 0; n-- {
		shown := slices.Clone(texts[:n])
		left := room - (n-1)*len(separator)
		if omitted := len(parts) - n; omitted > 0 {
			shown = append(shown, more(omitted))
			left -= len(separator) + len(more(omitted))
		}
		least := make([]int, n)
		for i, text := range shown[:n] {
			least[i] = min(len(text), len(parts[i].object)+minText)
			left -= least[i]
		}
		if left < 0 {
			continue
		}
		for i, extra := range fair(shown[:n], least, left) {
			shown[i] = display.Truncate(shown[i], least[i]+extra)
		}
		return strings.Join(shown, separator)
	}
	return display.Truncate(strings.Join(texts, separator), room)
}

// fair divides room among texts that are shortened, so that each gets an equal share or, if it
// needs less, all that it needs.
func fair(texts []string, has []int, room int) []int {
	order := make([]int, len(texts))
	wants := func(i int) int { return len(texts[i]) - has[i] }
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(wants(a), wants(b)) })
	shares := make([]int, len(texts))
	for served, i := range order {
		shares[i] = min(wants(i), room/(len(order)-served))
		room -= shares[i]
	}
	return shares
}

// CleanNote returns a text as a note that the API server accepts: one line of graphic characters, at
// most MaxNote bytes.
func CleanNote(text string) string { return display.Truncate(display.Line(text), MaxNote) }
