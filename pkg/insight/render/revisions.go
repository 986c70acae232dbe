package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// shownDigest is how many bytes of a sealed digest are shown, after the part that is the same for all of them.
const shownDigest = 12

// Revisions returns the table of the revisions of a VidraResource, and the commands that end a hold.
func (s Style) Revisions(all *insight.Revisions) string {
	rows := [][]styled{heading("REVISION", "STATE", "APPLIED", "DIGEST", "SOURCE")}
	if w := all.Waiting; w != nil {
		rows = append(rows, []styled{{text: "-"}, {"waits", yellow}, {text: "-"}, {text: digest(w.Digest)}, {text: Line(w.Source)}})
	}
	for _, k := range all.Kept {
		state := styled{text: "kept"}
		if k.Number == all.Applied {
			state = styled{"applied", green}
		}
		rows = append(rows, []styled{{text: strconv.FormatInt(k.Number, 10)}, state, {text: ageOf(k.Time.Time, s.Now)}, {text: digest(k.Digest)}, {text: Line(k.Source)}})
	}
	text := ""
	if len(rows) > 1 {
		text = s.table().rows(rows...)
	}
	if !all.Held {
		return text
	}
	by := ""
	if all.HeldBy != "" {
		by = fmt.Sprintf(" by %q", Line(all.HeldBy))
	}
	if all.HeldSince != nil {
		by += ", " + ago(all.HeldSince.Time, s.Now)
	}
	what := "new revisions wait"
	if all.To != 0 {
		what = fmt.Sprintf("revision %d is applied instead of the manifest", all.To)
	}
	text += Sprintf("Held: %s, set%s. `%s` shows the manifest that waits, `%s` applies it.\n", what, by, s.Program.Hint("diff", all.VidraResource), s.Program.Hint("rollback", all.VidraResource, "--release"))
	if all.To != 0 && all.Problem != "" {
		text += Sprintf("%s\n", all.Problem)
	}
	return text
}

// digest returns the beginning of a sealed digest that distinguishes revisions.
func digest(sealed string) string {
	_, text, _ := strings.Cut(sealed, ":")
	const key = 6 // the characters that identify the key
	if len(text) < key+shownDigest {
		return Line(text)
	}
	return Line(text[key : key+shownDigest])
}
