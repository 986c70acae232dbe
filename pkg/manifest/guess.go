package manifest

import (
	"regexp"
	"strings"
)

// This file analyzes the text of malformed documents. It does not decide whether a
// manifest is valid: it only makes errors more useful.

// templateFault reports that a line holds a template.
func templateFault(line int) *Error {
	return faultf(line, "holds a template that was not rendered ({{ ... }}): "+
		"render the manifest first, or put quotes around the value if it is meant so")
}

// templateFault reports which line of the document holds a template, or returns nil.
func (d document) templateFault() *Error {
	line := templateLine(d.text)
	if line == 0 {
		return nil
	}
	return templateFault(d.line + line - 1)
}

// blockScalar matches a line whose value is the block scalar below it.
var blockScalar = regexp.MustCompile(`(^|[\s:-])[|>][-+0-9]{0,2}(\s+#.*)?$`)

// templateLine returns the line, from 1, of the first value that begins with a
// template's braces and without a quote, or 0. Block scalars may hold templates.
func templateLine(text string) int {
	number, block := 0, -1 // block is the indentation of the open block scalar's key.
	for _, line := range lines(text) {
		number++
		if block >= 0 && (strings.TrimSpace(line) == "" || indentation(line) > block) {
			continue
		}
		block = -1
		if blockScalar.MatchString(line) {
			block = indentation(line)
			continue
		}
		if beginsTemplate(line) {
			return number
		}
	}
	return 0
}

// beginsTemplate reports whether a line, or the value behind its first key, begins
// with a template's braces.
func beginsTemplate(line string) bool {
	line = strings.TrimLeft(line, " -")
	if strings.HasPrefix(line, "{{") {
		return true
	}
	key, value, found := strings.Cut(line, ": ")
	return found && !strings.ContainsAny(key, `"'#`) && strings.HasPrefix(strings.TrimLeft(value, " "), "{{")
}

// topLevel and inMapping match the lines with the identity of an object. They are
// strict: a line that looks different is not quoted in an error.
var (
	topLevel  = regexp.MustCompile(`^(apiVersion|kind|metadata):\s*([A-Za-z0-9./-]{0,80})\s*$`)
	inMapping = regexp.MustCompile(`^\s+(name|namespace):\s*([A-Za-z0-9.:-]{1,253})\s*$`)
)

// guessIdentity returns the identity of an object as the text of a malformed document appears to have it.
func guessIdentity(text string) identity {
	var id identity
	metadata, indent := false, 0
	for _, line := range lines(text) {
		if m := topLevel.FindStringSubmatch(line); m != nil {
			metadata, indent = m[1] == "metadata", 0
			switch m[1] {
			case "apiVersion":
				id.apiVersion = m[2]
			case "kind":
				id.kind = m[2]
			}
			continue
		}
		if isBlank(line) || !metadata {
			continue
		}
		if indent == 0 {
			indent = indentation(line)
		}
		if indentation(line) == 0 {
			metadata = false
		} else if m := inMapping.FindStringSubmatch(line); m != nil && indentation(line) == indent {
			if m[1] == "name" {
				id.name = m[2]
			} else {
				id.namespace = m[2]
			}
		}
	}
	return id
}
