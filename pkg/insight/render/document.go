package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/terminal"
)

// The formats of documents.
const (
	JSON = "json"
	YAML = "yaml"
)

// Document returns a value as JSON or YAML.
func Document(format string, value any) (string, error) {
	document, err := json.Marshal(value)
	if err == nil {
		document, err = safeDocument(document, format == YAML)
	}
	if err != nil {
		return "", fmt.Errorf("encode the output: %w", err)
	}
	return string(document), nil
}

// safeDocument returns a JSON document as YAML or as indented JSON, escaped for a terminal. The YAML encoder writes some unsafe
// characters as they are. A document with such characters stays JSON, which is valid YAML.
func safeDocument(document []byte, asYAML bool) ([]byte, error) {
	escaped := terminal.EscapeJSON
	if asYAML {
		text, err := yaml.JSONToYAML([]byte(terminal.EscapeYAML(string(document)))) // it refuses control characters
		if plain := strings.ReplaceAll(string(text), "\t", " "); err != nil || safeLines("", plain) == plain {
			return text, err
		}
		escaped = terminal.EscapeYAML
	}
	var indented bytes.Buffer
	err := json.Indent(&indented, append(document, '\n'), "", "    ")
	return []byte(escaped(indented.String())), err
}

// ageOf is an age as kubectl writes it.
func ageOf(t, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}

// ago is a time before now in a sentence. An entry of managedFields may have none.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "at an unknown time"
	}
	return ageOf(t, now) + " ago"
}
