package ui

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// Verdict is what an apply of a VidraResource would do, and who would fight with it.
type Verdict struct {
	VidraResource string
	// Summary counts the objects by what happens to them.
	Summary string
	Objects []ObjectVerdict
	Fields  []FieldVerdict
	// Rule leaves the fields that fight to their writers; empty if none does.
	Rule string
	// Missing is what could not be checked, and why.
	Missing []string
}

// ObjectVerdict is what an apply would do with an object.
type ObjectVerdict struct {
	// Verb is what happens, such as create. Object is the name of the object in messages.
	Verb, Object, Place string
	Remarks             []string
	// Diff is a unified diff with masked values.
	Diff string
}

// FieldVerdict is a field of the manifest that another program or user writes.
type FieldVerdict struct {
	Object, Field, Writer, Place string
	// Fights reports that the writer writes it again.
	Fights bool
	// Now is the value as it is, and Wanted that of the manifest; empty where they are not shown.
	Now, Wanted string
	Times       int64
}

// unchanged is the verb of an object that an apply leaves as it is.
const unchanged = "unchanged"

// Changed are the objects that an apply would not leave as they are.
func (v Verdict) Changed() []ObjectVerdict {
	var all []ObjectVerdict
	for _, o := range v.Objects {
		if o.Verb != unchanged {
			all = append(all, o)
		}
	}
	return all
}

// Fights are the fields that will fight, and Taken those that the apply takes once.
func (v Verdict) Fights() []FieldVerdict { return v.fields(true) }

// Taken are the fields that the apply takes once from users.
func (v Verdict) Taken() []FieldVerdict { return v.fields(false) }

func (v Verdict) fields(fights bool) []FieldVerdict {
	var all []FieldVerdict
	for _, f := range v.Fields {
		if f.Fights == fights {
			all = append(all, f)
		}
	}
	return all
}

// Headline is the verdict in a sentence, with the fields that fight and their writers, and one about the objects that are deleted.
func (v Verdict) Headline() string {
	deleted := v.with("delete")
	switch len(deleted) {
	case 0:
		return v.outcome()
	case 1:
		return v.outcome() + " It deletes " + deleted[0].Object + "."
	}
	return v.outcome() + fmt.Sprintf(" It deletes %d objects.", len(deleted))
}

// with are the objects with a verb.
func (v Verdict) with(verb string) []ObjectVerdict {
	var all []ObjectVerdict
	for _, o := range v.Objects {
		if o.Verb == verb {
			all = append(all, o)
		}
	}
	return all
}

// outcome is the first sentence of the headline.
func (v Verdict) outcome() string {
	refused := len(v.with("refuse"))
	fights := v.Fights()
	switch {
	case refused == 1:
		return "1 object would be refused: see why below."
	case refused > 1:
		return fmt.Sprintf("%d objects would be refused: see why below.", refused)
	case len(fights) > 0:
		const named = 3
		var parts []string
		for _, f := range fights[:min(len(fights), named)] {
			parts = append(parts, fmt.Sprintf("%s of %s, which %s writes", f.Field, f.Object, f.Writer))
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
func (v Verdict) Tone() string {
	switch {
	case len(v.with("refuse")) > 0:
		return "failing"
	case len(v.Fights()) > 0, len(v.with("delete")) > 0:
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
	Verdicts      []Verdict
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

// judge answers what a dropped file would do.
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

// verdicts returns what an apply of a file would do, and who would fight with it. name is the VidraResource that gets the objects of a file
// without VidraResources; empty for a new one.
func (s *Server) verdicts(ctx context.Context, file insight.File, name string) ([]Verdict, error) {
	q := insight.PreviewQuery{VidraResource: name, Files: []insight.File{file}, Namespace: s.Namespace}
	diff, err := s.previews.Diff(ctx, q)
	if err != nil {
		return nil, err
	}
	forecast, err := s.previews.Forecast(ctx, q)
	if err != nil {
		return nil, err
	}
	style := render.Style{Program: s.Program}
	var all []Verdict
	for i, d := range diff.VidraResources {
		f := forecast.VidraResources[i]
		v := Verdict{VidraResource: d.VidraResource, Missing: append(f.Missing, diff.Remarks...)}
		_, v.Summary, _ = strings.Cut(render.DiffSummary(d), ": ")
		for _, o := range d.Objects {
			v.Objects = append(v.Objects, ObjectVerdict{Verb: render.Verb(o), Object: o.Object(), Place: o.Place, Remarks: style.DiffRemarks(o), Diff: o.Diff})
		}
		for _, field := range f.Fields {
			v.Fields = append(v.Fields, FieldVerdict{
				Object: display.Name(field.Kind, field.Namespace, field.Name), Field: field.Field, Writer: field.Writer, Place: field.Place,
				Fights: field.Fights, Now: field.Now, Wanted: field.Wanted, Times: field.Times,
			})
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
