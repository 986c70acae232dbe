package render

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// HistoryNames returns the objects that were edited, each once, as arguments of kubectl.
func HistoryNames(history *insight.History) string {
	var lines []string
	for _, e := range history.Edits {
		kind := schema.FromAPIVersionAndKind(e.Object.APIVersion, e.Object.Kind).GroupKind()
		if line := Line(strings.ToLower(kind.String())+"/"+e.Object.Name) + "\n"; !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// History returns the table of edits.
func (s Style) History(history *insight.History) string {
	names := []string{"LAST SEEN", "COUNT", "VIDRARESOURCE", "OBJECT", "REASON"}
	if s.Wide {
		names = append(names, "FIRST SEEN", "USER", "MANAGER", "FIELDS")
	}
	rows := [][]styled{heading(append(names, "MESSAGE")...)}
	kinds := history.Kinds
	for _, e := range history.Edits {
		kinds.Add(schema.FromAPIVersionAndKind(e.Object.APIVersion, e.Object.Kind).GroupKind())
	}
	for _, e := range history.Edits {
		kind := schema.FromAPIVersionAndKind(e.Object.APIVersion, e.Object.Kind).GroupKind()
		row := plain(ageOf(e.LastTime.Time, s.Now), strconv.FormatInt(e.Count, 10), e.VidraResource, Line(kinds.Name(kind, e.Object.Namespace, e.Object.Name)))
		row = append(row, styled{Line(e.Reason), yellow})
		if s.Wide {
			row = append(row, plain(ageOf(e.FirstTime.Time, s.Now), Line(e.User), Line(e.Manager), Line(strings.Join(e.Fields, ",")))...)
		}
		rows = append(rows, append(row, styled{text: Line(e.Message)}))
	}
	return sourceLines(history.Source) + s.table().rows(rows...)
}
