package manifest

import "strings"

// Document is the text of one document of a manifest, with its objects.
type Document struct {
	// Text begins with the `---` or the directives of the document, where it has any.
	Text string
	// Objects has one object, or the items of a list.
	Objects []Object
}

// Documents reads a manifest as [Parse] does, and returns its documents that have objects. An object may be there twice.
func Documents(text string, opts Options) ([]Document, error) {
	return newReader(opts).read(text)
}

// Join returns the texts of documents as one manifest.
func Join(texts ...string) string {
	var joined strings.Builder
	for _, text := range texts {
		appendDocument(&joined, text)
	}
	return joined.String()
}
