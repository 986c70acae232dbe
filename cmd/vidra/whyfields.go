package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// fields prints which fields of the object Vidra owns, and which others set.
func (e *explanation) fields(t *target, b *strings.Builder, title func(string), colour, wide bool, now time.Time) {
	var others [len(claims)][][]styled
	var masked map[string]any
	if t.live != nil {
		masked = ownership.Mask(t.live, e.known, func([]string, any) any { return "***" }).Object
	}
	for _, o := range e.Others {
		for _, field := range o.fields {
			c := e.claimOf(field.Path)
			others[c] = append(others[c], plain(oneLine(o.by()), ageOf(o.Time.Time, now)+" ago", oneLine(field.Path+valueText(masked, field))))
		}
	}
	for i, rows := range others {
		if len(rows) == 0 {
			continue
		}
		title(claims[i])
		shown := rows
		if !wide {
			shown = rows[:min(len(rows), shownFields)]
		}
		table := &textTable{colour: colour}
		b.WriteString(table.rows(shown...))
		if more := len(rows) - len(shown); more > 0 {
			fprintf(b, "... and %d more, with -o wide\n", more)
		}
	}
	for _, m := range e.ManagedBy {
		if fields := slices.DeleteFunc(slices.Clone(m.Fields), marksOwner); len(fields) > 0 {
			title("Owned by VidraResource " + m.VidraResource)
			b.WriteString(few(fields, wide) + "\n")
		}
		if len(m.Left) > 0 {
			title("Ignored by VidraResource " + m.VidraResource + ", because of spec.drift.ignore")
			b.WriteString(few(m.Left, wide) + "\n")
		}
		if len(m.Controlled) > 0 {
			title("Ignored by VidraResource " + m.VidraResource + ", because controllers write them (spec.drift.controllerFields)")
			b.WriteString(few(m.Controlled, wide) + "\n")
		}
	}
}

// The claims of the manifest to a field that another field manager set.
const (
	unclaimed = iota
	claimed
	shared
)

// claims are the titles of the fields by the claim of the manifest.
var claims = [...]string{
	unclaimed: "Set by others, not in the manifest: Vidra does not change them",
	claimed:   "Set by others, in the manifest with another value",
	shared:    "Set by others to the value that the manifest has",
}

// claimOf is the claim of the manifests to a field that another field manager set. An ignored field is unclaimed.
func (e *explanation) claimOf(path string) int {
	claim := unclaimed
	for _, m := range e.ManagedBy {
		switch {
		case slices.Contains(m.Fields, path):
			return shared
		case slices.ContainsFunc(m.configured, func(f ownership.Field) bool { return f.Path == path }):
			claim = claimed
		}
	}
	return claim
}

// by is the field manager with the subresource through which it wrote.
func (o otherWriter) by() string {
	if o.Subresource == "" {
		return o.Manager
	}
	return o.Manager + " through " + o.Subresource
}

// marksOwner reports whether a field is the label or the annotation by which Vidra marks its objects.
func marksOwner(path string) bool {
	return path == "metadata.labels."+v1alpha1.ManagedByLabel || strings.HasPrefix(path, `metadata.annotations["`+v1alpha1.OwnerAnnotationPrefix)
}

// mostShown is how many characters of a value are shown.
const mostShown = 60

// valueText is the value of a field in an object whose values that are never shown are masked.
func valueText(masked map[string]any, field ownership.Field) string {
	if field.Tokens == nil {
		return ""
	}
	value := valueAt(masked, field.Tokens)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if value == nil || encoder.Encode(value) != nil {
		return ""
	}
	shown := []rune(strings.TrimSpace(text.String()))
	if len(shown) > mostShown {
		shown = append(shown[:mostShown], '…')
	}
	return " = " + string(shown)
}
