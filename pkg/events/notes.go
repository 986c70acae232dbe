package events

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// maxNote is how many bytes of a note are written. The API server rejects an
// Event whose note has more than 1,024
// (k8s.io/kubernetes/pkg/apis/core/validation, NoteLengthLimit).
const maxNote = 1000

// ellipsis ends a text that was cut.
const ellipsis = "…"

// minText is how many bytes of a part are kept in any case, after its object's name.
const minText = 24

// maxFieldPath is how many bytes a reference's field path has at most.
const maxFieldPath = 256

// Name names an object for people: kind, namespace and name.
func Name(ref corev1.ObjectReference) string {
	if ref.Namespace == "" {
		return ref.Kind + " " + ref.Name
	}
	return ref.Kind + " " + ref.Namespace + "/" + ref.Name
}

// Fields says which fields were put back, from what to what, and who had
// changed them.
func Fields(changes []ownership.Change) string {
	parts := make([]string, 0, len(changes))
	for _, change := range changes {
		parts = append(parts, field(change))
	}
	return strings.Join(parts, "; ")
}

func field(c ownership.Change) string {
	var b strings.Builder
	b.WriteString(c.Path)
	switch {
	case c.Withheld:
		b.WriteString(" (values withheld), " + strings.ToLower(string(c.Kind)))
	case c.Kind == ownership.Removed:
		fmt.Fprintf(&b, " (removed) -> %s", c.Restored)
	case c.Kind == ownership.Taken:
		fmt.Fprintf(&b, " (taken) %s", c.Restored)
	case c.Restored == "":
		fmt.Fprintf(&b, " %s -> (nothing)", c.Found)
	default:
		fmt.Fprintf(&b, " %s -> %s", c.Found, c.Restored)
	}
	verb := "set"
	if c.Kind == ownership.Taken {
		verb = "owned"
	}
	switch {
	case c.Manager == "" && c.Kind == ownership.Removed:
		b.WriteString(" (the API server does not record who removes a field)")
	case c.Manager == "":
	case c.Subresource != "":
		fmt.Fprintf(&b, ", %s by %q through %s", verb, c.Manager, c.Subresource)
	default:
		fmt.Fprintf(&b, ", %s by %q", verb, c.Manager)
	}
	return b.String()
}

// fieldPath makes Events about different fields of an object different series:
// the first note of a series is the only one that is kept.
func fieldPath(changes []ownership.Change) string {
	paths := make([]string, 0, len(changes))
	for _, change := range changes {
		paths = append(paths, change.Path)
	}
	return Truncate(strings.ToValidUTF8(strings.Join(paths, ","), string(utf8.RuneError)), maxFieldPath)
}

// managers are those who changed fields: what another one does is another series.
func managers(changes []ownership.Change) string {
	var names []string
	for _, change := range changes {
		if !slices.Contains(names, change.Manager) {
			names = append(names, change.Manager)
		}
	}
	return strings.Join(names, ",")
}

// join joins parts of a message in at most room bytes, of each the name of its object
// at least. Long parts make room for each other alike. Where that is too much still,
// it says how many are not named.
func join(parts []string, room int) string {
	for n := len(parts); n > 0; n-- {
		shown := slices.Clone(parts[:n])
		left := room - (n-1)*len(Between)
		if omitted := len(parts) - n; omitted > 0 {
			shown = append(shown, More(omitted))
			left -= len(Between) + len(More(omitted))
		}
		least := make([]int, n)
		for i, text := range shown[:n] {
			object, _, _ := strings.Cut(text, ": ")
			least[i] = min(len(text), len(object)+minText)
			left -= least[i]
		}
		if left < 0 {
			continue
		}
		for i, extra := range fair(shown[:n], least, left) {
			shown[i] = Truncate(shown[i], least[i]+extra)
		}
		return strings.Join(shown, Between)
	}
	return Truncate(strings.Join(parts, Between), room)
}

// fair divides room among those who have less than they want, so that nobody gets less
// than another one unless it is all that he wants.
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

// clean makes a note of any text: one line of valid UTF-8 that the API server
// accepts.
func clean(text string) string {
	line := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
	return Truncate(line, maxNote)
}

// Truncate shortens text to at most n bytes, at a rune boundary.
func Truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	if n < len(ellipsis) {
		return ""
	}
	end := n - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
