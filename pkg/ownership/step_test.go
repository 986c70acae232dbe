package ownership

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// elementsTo returns the elements of a path.
func elementsTo(path *step) (elements fieldpath.Path) {
	for at := path; at.above != nil; at = at.above {
		elements = append(elements, at.element)
	}
	slices.Reverse(elements)
	return elements
}

// stepTo returns a path of fields below a step.
func stepTo(above *step, names ...string) *step {
	for _, name := range names {
		above = above.child(fieldpath.PathElement{FieldName: &name})
	}
	return above
}

// TestPathsAreBounded has the text of a long path be short, and differ from the text of each other path, whatever the part in which they differ.
func TestPathsAreBounded(t *testing.T) {
	t.Parallel()
	name := func(last string) string { return strings.Repeat("n", 10_000) + last }
	many := func(first string) []string { return append([]string{first}, slices.Repeat([]string{"level"}, 500)...) }
	paths := map[string]*step{
		"Whole":       stepTo(&step{}, "spec", "template", "a.b"),
		"LongName":    stepTo(&step{}, "spec", name("1"), "field"),
		"LongLast":    stepTo(&step{}, "spec", name("1")),
		"Deep":        stepTo(&step{}, append(many("a"), "field")...),
		"OtherBegin":  stepTo(&step{}, append(many("b"), "field")...),
		"OtherEnd":    stepTo(&step{}, append(many("a"), "other")...),
		"LongAndDeep": stepTo(&step{}, append([]string{name("1")}, many("a")...)...),
	}
	seen := sets.Set[string]{}
	for reason, path := range paths {
		text, pointer := path.text(false), path.jsonPointer(false)
		require.LessOrEqual(t, len(text), maxPath+len("…0123456789abcdef."), reason)
		require.Equal(t, text, stepTo(&step{}, namesTo(path)...).text(false), "the text of a path depends on no other path: "+reason)
		seen.Insert(text)
		if reason == "Whole" {
			require.Equal(t, `spec.template["a.b"]`, text)
			require.Equal(t, "/spec/template/a.b", pointer)
		} else {
			require.Empty(t, pointer, reason)
		}
	}
	require.Len(t, seen, len(paths))
	require.Regexp(t, `^…[0-9a-f]{16}\.level(\.level)+\.field$`, paths["Deep"].text(false))
}

// namesTo returns the names of the fields of a path.
func namesTo(path *step) (names []string) {
	for _, element := range elementsTo(path) {
		names = append(names, *element.FieldName)
	}
	return names
}

// TestPathsWithholdKeys has the hash of the begin of a path hide the keys of list items that the path itself hides.
func TestPathsWithholdKeys(t *testing.T) {
	t.Parallel()
	item := func(value string) *step {
		text, err := json.Marshal(map[string]string{"name": value})
		require.NoError(t, err)
		element, err := fieldpath.DeserializePathElement("k:" + string(text))
		require.NoError(t, err)
		return stepTo(stepTo(&step{}, "items").child(element), slices.Repeat([]string{"level"}, 500)...)
	}
	require.NotEqual(t, item("a").text(false), item("b").text(false))
	require.Equal(t, item("a").text(true), item("b").text(true))
}
