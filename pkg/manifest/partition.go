package manifest

import "strings"

// Partition cuts the text of a manifest in two, between documents: chosen has the documents with at least one object that
// choose selects, rest has the others. objects are those that Parse returned for the text. The rest is the unchanged text if
// nothing is chosen.
func Partition(text string, objects []Object, choose func(Object) bool) (rest, chosen string) {
	documents := map[int]bool{}
	for _, o := range objects {
		if choose(o) {
			documents[o.Position.Document] = true
		}
	}
	if len(documents) == 0 {
		return text, ""
	}
	var left, right strings.Builder
	for _, doc := range split(text) {
		to := &left
		if documents[doc.number] {
			to = &right
		}
		appendDocument(to, doc.text)
	}
	return left.String(), right.String()
}

// appendDocument adds the text of a document, and the marker that separates it from those before.
func appendDocument(to *strings.Builder, text string) {
	switch {
	case to.Len() == 0 || isMarker(lineText(text, 1), "---"):
	case strings.HasPrefix(text, "%"):
		to.WriteString("...\n")
	default:
		to.WriteString("---\n")
	}
	to.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		to.WriteString("\n")
	}
}
