package ui

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// verdict is the effect of an apply of a VidraResource, and the writers that would fight with it.
type verdict struct {
	VidraResource string
	// Summary counts the objects by the effects on them.
	Summary string
	Objects []objectVerdict
	// Fields are those of the manifest that other programs or users write, with their places in the file.
	Fields []insight.ContestedField
	// Rule leaves the fields that fight to their writers; empty if none does.
	Rule string
	// Applied reports that the VidraResource is applied already: omitted fields are reset then.
	Applied bool
	// FromFile reports that the file has the VidraResource.
	FromFile bool
	// Controlled are the fields that are left to controllers, by object.
	Controlled []string
	// Missing names the unchecked parts, with the reasons.
	Missing []string
}

// objectVerdict is the effect of an apply on an object.
type objectVerdict struct {
	// Verb is the effect, such as create. Object is the name of the object in messages.
	Verb, Object, Place string
	Remarks             []string
	// Fights are the fields over which it will fight.
	Fights []string
	// Diff is a unified diff with masked values.
	Diff string
}

// unchanged is the verb of an object that an apply leaves as it is.
const unchanged = "unchanged"

// urgency orders the verbs: losses come first, and a change of values last.
var urgency = []string{"refuse", "delete", "replace", "release", "move", "adopt", "create", "change", "keep"}

// rank orders objects: those that are refused or deleted, those that will fight, and the others.
func (o objectVerdict) rank() int {
	at := slices.Index(urgency, o.Verb)
	switch {
	case o.Loses():
		return at
	case len(o.Fights) > 0:
		return len(urgency)
	case at < 0:
		at = len(urgency)
	}
	return len(urgency) + 1 + at
}

// Loses reports whether the object is refused, deleted or replaced.
func (o objectVerdict) Loses() bool {
	return o.Verb == "refuse" || o.Verb == "delete" || o.Verb == "replace"
}

// Shape is the name of the shape of the effect.
func (o objectVerdict) Shape() string {
	switch o.Verb {
	case "refuse":
		return "failing"
	case "delete", "replace", "release":
		return "minus"
	case "create":
		return "plus"
	}
	return "change"
}

// Changed are the objects that an apply would not leave as they are, the most urgent ones first. An object that will fight is among them.
func (v verdict) Changed() []objectVerdict {
	all := slices.DeleteFunc(slices.Clone(v.Objects), func(o objectVerdict) bool { return o.Verb == unchanged && len(o.Fights) == 0 })
	slices.SortStableFunc(all, func(a, b objectVerdict) int { return cmp.Compare(a.rank(), b.rank()) })
	return all
}

// Same are the objects that an apply leaves as they are, without those that will fight.
func (v verdict) Same() []objectVerdict {
	return slices.DeleteFunc(v.with(unchanged), func(o objectVerdict) bool { return len(o.Fights) > 0 })
}

// Deleted are the objects that the apply deletes.
func (v verdict) Deleted() []objectVerdict { return v.with("delete") }

// FightingFields are the fields that will fight, each once.
func (v verdict) FightingFields() []string {
	var all []string
	for _, f := range v.Fights() {
		if !slices.Contains(all, f.Field) {
			all = append(all, f.Field)
		}
	}
	return all
}

// Fights are the fields that will fight, and Taken those that the apply takes once.
func (v verdict) Fights() []insight.ContestedField { return v.fields(true) }

// Taken are the fields that the apply takes once from users.
func (v verdict) Taken() []insight.ContestedField { return v.fields(false) }

func (v verdict) fields(fights bool) []insight.ContestedField {
	return slices.DeleteFunc(slices.Clone(v.Fields), func(f insight.ContestedField) bool { return f.Fights != fights })
}

// with are the objects with a verb.
func (v verdict) with(verb string) []objectVerdict {
	return slices.DeleteFunc(slices.Clone(v.Objects), func(o objectVerdict) bool { return o.Verb != verb })
}

// Headline is the verdict in a sentence, with the fields that fight and their writers. Deletions have a box of their own.
func (v verdict) Headline() string {
	refused := len(v.with("refuse"))
	fights := v.Fights()
	switch {
	case refused > 0:
		return display.Plural(refused, "object") + " would be refused: see why below."
	case len(fights) > 0:
		const named = 3
		var parts []string
		for _, f := range fights[:min(len(fights), named)] {
			parts = append(parts, fmt.Sprintf("%s of %s, which %s writes", f.Field, f.Object(), f.Writer))
		}
		more := ""
		if len(fights) > named {
			more = fmt.Sprintf(", and %d more", len(fights)-named)
		}
		return "This will fight over " + strings.Join(parts, "; ") + more + "."
	case len(v.Missing) > 0:
		return "Nothing is known to fight, and not everything could be checked."
	case len(v.Changed()) == 0:
		return "An apply would change nothing."
	}
	return "Nothing will fight with it."
}

// Tone is the tone of the headline.
func (v verdict) Tone() string {
	switch {
	case len(v.with("refuse")) > 0:
		return "failing"
	case len(v.Fights()) > 0:
		return "drifted"
	case len(v.Missing) > 0:
		return "progress"
	}
	return "ok"
}

// forecastView is the data of the page for a dropped file.
type forecastView struct {
	File          string
	VidraResource string
	Verdicts      []verdict
	Failed        string
	Names         []string
}

// mostNames is how many VidraResources are proposed for a file.
const mostNames = 500

// forecast serves the page to drop a file on.
func (s *Server) forecast(w http.ResponseWriter, r *http.Request) {
	defer s.feeds.use(vidraResourceFeed, s.store)()
	view := forecastView{VidraResource: r.URL.Query().Get("vidraresource")}
	_, _ = s.store.await(r.Context()) // the list is as long as it got until then
	for _, e := range s.store.sorted() {
		if len(view.Names) < mostNames {
			view.Names = append(view.Names, e.vr.Name)
		}
	}
	s.render(w, r, http.StatusOK, "forecast", s.newPage("Forecast", "forecast", "", view))
}

// maxFile is how many bytes a dropped file may have: a manifest in parts may have 8 MiB.
const maxFile = 9 << 20

// judge answers the question about the effect of a dropped file.
func (s *Server) judge(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxFile)
	ctx, cancel := context.WithTimeout(r.Context(), 2*questionTimeout)
	defer cancel()
	view := forecastView{}
	if err := r.ParseMultipartForm(maxFile); err != nil {
		view.Failed = fmt.Sprintf("The file cannot be read: %s. A file may have %d MiB.", err, maxFile>>20)
	} else {
		text := r.FormValue("text")
		view.File, view.VidraResource = r.FormValue("file"), r.FormValue("vidraresource")
		if strings.TrimSpace(text) == "" {
			view.Failed = "The file is empty: drop a file with VidraResources, or with the objects of one."
		} else if view.Verdicts, err = s.verdicts(ctx, insight.File{Name: cmp.Or(view.File, "the file"), Text: text}, view.VidraResource); err != nil {
			view.Failed = sentence(err)
		}
	}
	s.render(w, r, http.StatusOK, "forecast", s.newPage("Forecast", "forecast", "", view))
}

// hasVidraResource matches the text of a file with a VidraResource.
var hasVidraResource = regexp.MustCompile(`(?m)^\s*(- )?"?kind"?:\s*"?VidraResource\b`)

// placeIn is a place in a dropped file: the file itself is the manifest, or a VidraResource in it has the manifest.
func placeIn(file, place, vidraResource string, hasOwner bool) string {
	position, inManifest := strings.CutPrefix(place, "spec.manifest of VidraResource "+vidraResource+", ")
	switch {
	case !inManifest:
		return place
	case hasOwner:
		return file + ", spec.manifest: " + position
	}
	return file + ": " + position
}

// verdicts returns the effect of an apply of a file, and the writers that would fight with it. name is the VidraResource that
// gets the objects of a file without VidraResources; empty for a new one.
func (s *Server) verdicts(ctx context.Context, file insight.File, name string) ([]verdict, error) {
	q := insight.PreviewQuery{VidraResource: name, Files: []insight.File{file}, Namespace: s.options.Namespace}
	diff, err := s.previews.Diff(ctx, q)
	if err != nil {
		return nil, err
	}
	forecast, err := s.previews.Forecast(ctx, q)
	if err != nil {
		return nil, err
	}
	style, fromFile := render.Style{Program: s.options.Program}, hasVidraResource.MatchString(file.Text)
	var all []verdict
	for i, d := range diff.VidraResources {
		f := forecast.VidraResources[i]
		shownPlace := func(place string) string { return placeIn(file.Name, place, d.VidraResource, fromFile) }
		v := verdict{VidraResource: d.VidraResource, Missing: append(f.Missing, diff.Remarks...)}
		v.Applied, v.FromFile = f.Applied, fromFile
		_, v.Summary, _ = strings.Cut(render.DiffSummary(d), ": ")
		for _, c := range f.Controlled {
			v.Controlled = append(v.Controlled, render.Controlled(c))
		}
		for _, field := range f.Fields {
			field.Place = shownPlace(field.Place)
			v.Fields = append(v.Fields, field)
		}
		for _, one := range d.Objects {
			o := objectVerdict{Verb: render.Verb(one), Object: one.Object(), Place: shownPlace(one.Place), Remarks: style.DiffRemarks(one), Diff: one.Diff}
			for _, field := range v.Fights() {
				if field.Object() == o.Object && !slices.Contains(o.Fights, field.Field) {
					o.Fights = append(o.Fights, field.Field)
				}
			}
			v.Objects = append(v.Objects, o)
		}
		if len(f.Rules) > 0 {
			if v.Rule, err = render.RuleYAML(f.Existing, f.Rules...); err != nil {
				return nil, err
			}
		}
		all = append(all, v)
	}
	return all, nil
}
