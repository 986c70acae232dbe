package render

import (
	"slices"
	"strconv"
	"strings"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// HistoryNames returns the objects that were edited, each once, as arguments of kubectl.
func HistoryNames(history *insight.History) string {
	var lines []string
	for _, e := range history.Edits {
		id := insight.IdentityOf(e.Object)
		if line := Line(strings.ToLower(id.GroupKind.String())+"/"+id.Name) + "\n"; !slices.Contains(lines, line) {
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
		kinds.Add(insight.IdentityOf(e.Object).GroupKind)
	}
	for _, e := range history.Edits {
		id := insight.IdentityOf(e.Object)
		row := plain(ageOf(e.LastTime.Time, s.Now), strconv.FormatInt(e.Count, 10), e.VidraResource, Line(kinds.Name(id.GroupKind, id.Namespace, id.Name)))
		row = append(row, styled{Line(e.Reason), yellow})
		if s.Wide {
			row = append(row, plain(ageOf(e.FirstTime.Time, s.Now), Line(e.User), Line(e.Manager), Line(strings.Join(e.Fields, ",")))...)
		}
		rows = append(rows, append(row, styled{text: Line(e.Message)}))
	}
	return sourceLines(history.Source) + s.table().rows(rows...)
}
