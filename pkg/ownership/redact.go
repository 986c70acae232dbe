package ownership

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// minRedacted is how many bytes a value has that Redact replaces. Shorter ones, such as 1 and on, hide nothing.
	minRedacted = 4
	// minWithin is how many bytes a value has that Redact replaces also within a word.
	minWithin = 8
	// maxSearched is how many bytes of texts RedactAll searches for values, summed over the values. It takes a tenth of a second.
	maxSearched = 1 << 26
)

// Redact returns a text that another program wrote about the object, such as the message of an admission policy, without the
// values of the environment variables of all known versions of the object. A value that the object shows elsewhere, such as its
// name, stays. The caller withholds the whole text of a sensitive object.
func (d Disclosure) Redact(text string) string { return d.RedactAll(text)[0] }

// RedactAll is Redact for several texts. Those beyond maxSearched are withheld.
func (d Disclosure) RedactAll(texts ...string) []string {
	if strings.Join(texts, "") == "" || len(d.versions) == 0 {
		return texts
	}
	var versions []map[string]any
	concealed := map[string]bool{}
	for _, version := range d.versions {
		if obj := version(); obj != nil {
			versions = append(versions, obj.Object)
			scalars(ordinary, obj.Object, func(value string, hidden bool) {
				if hidden && len(value) >= minRedacted {
					concealed[value] = true
				}
			})
		}
	}
	for _, object := range versions {
		if len(concealed) > 0 {
			scalars(ordinary, object, func(value string, hidden bool) {
				if !hidden {
					delete(concealed, value)
				}
			})
		}
	}
	forms, budget := formsOf(concealed), maxSearched
	redacted := make([]string, len(texts))
	for i, text := range texts {
		if budget -= len(text) * len(forms); budget < 0 {
			redacted[i] = withheldText
			continue
		}
		for _, form := range forms {
			text = replaceValue(text, form)
		}
		redacted[i] = text
	}
	return redacted
}

// scalars calls found with the scalars in value, which is at p, and with the names of fields.
func scalars(p place, value any, found func(value string, hidden bool)) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			found(name, false)
			scalars(p.field(name), field, found)
		}
	case []any:
		for _, item := range value {
			scalars(p.item(), item, found)
		}
	case nil, bool:
	case string:
		hidden := p.conceals(value)
		if hidden {
			if object := objectIn(value); object != nil { // an annotation with a whole object
				scalars(ordinary, object, found)
				return
			}
			_, assigned, _ := strings.Cut(value, "=") // an item of a set of NAME=value
			found(assigned, true)
		}
		found(value, hidden)
	default:
		if p.conceals(value) {
			found(fmt.Sprint(value), true)
		}
	}
}

// objectIn returns the object that a text is in JSON, or nil.
func objectIn(text string) (object map[string]any) {
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &object) != nil {
		return nil
	}
	return object
}

// formsOf returns values in the forms in which a text may have them, also as Go, JSON and YAML quote them, in the order of their replacement.
func formsOf(concealed map[string]bool) (forms []string) {
	for value := range concealed {
		quoted := strconv.Quote(value)
		forms = append(forms, value, quoted[1:len(quoted)-1])
		if encoded, err := json.Marshal(value); err == nil {
			forms = append(forms, string(encoded[1:len(encoded)-1]))
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }) // a value may be a part of another one
	return slices.Compact(forms)
}

// replaceValue replaces a value in a text; a short one only where it is a word.
func replaceValue(text, value string) string {
	if len(value) >= minWithin {
		return strings.ReplaceAll(text, value, withheldText)
	}
	var b strings.Builder
	for {
		at := strings.Index(text, value)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := at + len(value)
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[end:])
		b.WriteString(text[:at])
		if inWord(before) || inWord(after) {
			b.WriteString(value)
		} else {
			b.WriteString(withheldText)
		}
		text = text[end:]
	}
}

// inWord reports whether a character belongs to a word.
func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
