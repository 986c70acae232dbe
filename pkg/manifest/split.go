package manifest

import "strings"

// document is the text of one document of a manifest.
type document struct {
	// number counts the documents from 1.
	number int
	// line is the number, in the manifest, of the text's first line.
	line int
	// text begins with the document's `---` or directives, where it has any.
	text string
	// begin and end are the offsets of the text in the manifest. There it may have a byte order mark that text lacks.
	begin, end int
}

// split cuts a manifest into its documents, and leaves out the empty ones.
//
// It is done before parsing, line by line, so that one unreadable document does
// not hide the next. That is safe, because YAML reserves `---` and `...` at the
// start of a line: not even a scalar may contain them there (YAML 1.2, 9.1.2),
// and an indented one, as in a block scalar, is text.
func split(text string) []document {
	s := splitter{text: text}
	number := 0
	for offset, line := range lines(text) {
		number++
		s.line(offset, number, line)
	}
	s.flush(len(text))
	return s.documents
}

// splitter is the state of split between two lines.
type splitter struct {
	text      string
	documents []document
	// number counts the documents, with those that hold nothing.
	number int

	// begin and first are the offset and the line where the open piece begins;
	// first is 0 while none is open.
	begin, first int
	// explicit, content and directive report the contents of the open piece: its own `---`, anything that is neither comment
	// nor directive, a directive.
	explicit, content, directive bool
	// marked reports that a byte order mark stands between begin and the content.
	marked bool
}

// line takes one more line.
func (s *splitter) line(offset, number int, line string) {
	// A byte order mark at the start of a document is left out. Files that were
	// joined together have them in the middle.
	bare := strings.TrimPrefix(line, byteOrderMark)
	mark := len(line) - len(bare)

	marker := isMarker(bare, "---")
	if marker && (s.explicit || s.content) {
		s.flush(offset)
	}
	switch {
	case s.first == 0 || marker && !s.directive:
		s.begin, s.first = offset+mark, number
	case mark > 0 && !s.content:
		s.marked = true
	}

	switch {
	case marker:
		s.explicit = true
		s.content = !isBlank(bare[len("---"):])
	case isMarker(bare, "..."):
		s.flush(offset)
	case isBlank(bare):
	case bare[0] == '%' && !s.explicit && !s.content:
		s.directive = true
	default:
		s.content = true
	}
}

// flush ends the open piece, which is a document if it holds more than comments.
func (s *splitter) flush(end int) {
	if s.explicit || s.content || s.directive {
		s.number++
	}
	if s.content || s.directive {
		text := s.text[s.begin:end]
		if s.marked {
			text = strings.Replace(text, byteOrderMark, "", 1)
		}
		s.documents = append(s.documents, document{number: s.number, line: s.first, text: text, begin: s.begin, end: end})
	}
	s.first, s.explicit, s.content, s.directive, s.marked = 0, false, false, false, false
}

// isMarker reports whether a line is the given marker: nothing, or white space, stands
// behind it.
func isMarker(line, marker string) bool {
	rest, found := strings.CutPrefix(line, marker)
	return found && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}
