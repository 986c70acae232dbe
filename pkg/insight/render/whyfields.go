package render

import (
	"slices"
	"strings"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// fields prints which fields of the object Vidra owns, and which others set.
func (e explanation) fields(b *strings.Builder, title func(string)) {
	var others [len(claims)][][]styled
	for _, o := range e.explanation.Others {
		for _, field := range o.Details {
			text := field.Path
			if field.Value != "" {
				text += " = " + field.Value
			}
			others[field.Claim] = append(others[field.Claim], plain(Line(by(o.Manager, o.Subresource)), ago(o.Time.Time, e.style.Now), Line(text)))
		}
	}
	for i, rows := range others {
		if len(rows) == 0 {
			continue
		}
		title(claims[i])
		shown := rows
		if !e.style.Wide {
			shown = rows[:min(len(rows), shownFields)]
		}
		b.WriteString(e.style.table().rows(shown...))
		if more := len(rows) - len(shown); more > 0 {
			fprintf(b, "... and %d more, with -o wide\n", more)
		}
	}
	for _, m := range e.explanation.ManagedBy {
		if fields := slices.DeleteFunc(slices.Clone(m.Fields), marksOwner); len(fields) > 0 {
			title("Owned by VidraResource " + m.VidraResource)
			b.WriteString(e.few(fields) + "\n")
		}
		if len(m.Left) > 0 {
			title("Ignored by VidraResource " + m.VidraResource + ", because of spec.drift.ignore")
			b.WriteString(e.few(m.Left) + "\n")
		}
		if len(m.Controlled) > 0 {
			title("Ignored by VidraResource " + m.VidraResource + ", because controllers write them (spec.drift.controllerFields)")
			b.WriteString(e.few(m.Controlled) + "\n")
		}
	}
}

// claims are the titles of the fields by the claim of the manifest.
var claims = [...]string{
	insight.Unclaimed: "Set by others, not in the manifest: Vidra does not change them",
	insight.Claimed:   "Set by others, in the manifest with another value",
	insight.Shared:    "Set by others to the value that the manifest has",
}

// by is the field manager with the subresource through which it wrote.
func by(manager, subresource string) string {
	if subresource == "" {
		return manager
	}
	return manager + " through " + subresource
}

// marksOwner reports whether a field is the label or the annotation that marks an object of Vidra.
func marksOwner(path string) bool {
	return path == "metadata.labels."+v1alpha1.ManagedByLabel || strings.HasPrefix(path, `metadata.annotations["`+v1alpha1.OwnerAnnotationPrefix)
}
