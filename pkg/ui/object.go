package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// objectView is the data of the page of an object.
type objectView struct {
	ID       object.Identity
	Why      *insight.Explanation
	Owners   []ownerView
	Timeline timeline
	// Last is the newest edit that was observed whole, for its diff, or nil.
	Last    *moment
	Blame   []blameRow
	Remarks []string
	Foreign bool
	NoBlame string
	Actions []action
	// Origin counts the lines by where they come from; empty if they are unknown.
	Origin string
}

// ownerView is a VidraResource that manages the object, with the ways to keep a change.
type ownerView struct {
	By        insight.ManagedBy
	Handling  string
	Tone      string
	Rule      string
	Ways      bool
	Skip      string
	ExemptEnd string
	// Changes are the changes of the manifest that keep the last edits.
	Changes []manifestChange
}

// manifestChange is a change of the manifest that keeps an edit.
type manifestChange struct {
	// Field is empty for the whole object, which is removed. Value is the value of the edit; empty if it is unknown.
	Field, Value, Place string
}

// blameRow is a line of the object with its owner.
type blameRow struct {
	Line   insight.BlameLine
	Number int
	// Vidra reports that a manifest has the line, and Foreign that another field manager alone owns it.
	Vidra, Foreign bool
}

// object serves the page of an object.
func (s *Server) object(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), questionTimeout)
	defer cancel()
	query := r.URL.Query()
	target := insight.Target{Kind: strings.TrimSpace(query.Get("kind")), Namespace: strings.TrimSpace(query.Get("namespace")), Name: strings.TrimSpace(query.Get("name"))}
	if kind, name, found := strings.Cut(target.Name, "/"); found && target.Kind == "" {
		target.Kind, target.Name = kind, name
	}
	if target.Kind == "" || target.Name == "" {
		s.fail(w, r, http.StatusBadRequest, errors.New("name the object as KIND/NAME, such as deployment/web, and its namespace"))
		return
	}
	target.Kind = strings.ToLower(target.Kind)
	id, err := s.insight.Identify(target)
	if err != nil {
		s.failAnswer(w, r, err)
		return
	}
	view := objectView{ID: id, Foreign: query.Get("foreign") != ""}
	ctx = context.WithValue(ctx, askedKey{}, id)
	var asking errgroup.Group
	asking.Go(func() (err error) {
		view.Why, err = s.insight.Why(ctx, target)
		return err
	})
	asking.Go(func() error {
		blame, err := s.insight.Blame(ctx, target, view.Foreign)
		if err != nil {
			view.NoBlame = sentence(err)
			return nil
		}
		view.addBlame(blame)
		return nil
	})
	if err := asking.Wait(); err != nil {
		s.failAnswer(w, r, err)
		return
	}
	view.addOwners()
	moments := s.timelineOfObject(id, view.Why)
	if i := slices.IndexFunc(moments, func(m moment) bool { return m.Diff != "" }); i >= 0 {
		view.Last = &moments[i]
	}
	view.explain(moments)
	view.Timeline = timelineOfMoments(moments, shownOfObject)
	view.Timeline.OneObject = true
	view.Actions = s.actionsOfObject(view.Why)
	s.render(w, r, http.StatusOK, "object", s.newPage(id.String(), "", objectTopic(id), view))
}

// addOwners adds the VidraResources that manage the object.
func (v *objectView) addOwners() {
	for _, m := range v.Why.ManagedBy {
		o := ownerView{By: m, Handling: render.Handling(m), Tone: cmp.Or(objectTones[v1alpha1.ObjectState(m.State)], "progress"), Ways: m.LinesFrom != ""}
		if m.Exempt != nil {
			o.ExemptEnd = m.SkipWith
		} else {
			o.Skip = m.SkipWith
		}
		if m.Rule != nil {
			rule, err := render.RuleYAML(m.Rules, *m.Rule)
			if err != nil {
				rule = err.Error()
			}
			o.Rule = rule
		}
		v.Owners = append(v.Owners, o)
	}
}

// timelineOfObject is the timeline of an object over all VidraResources that manage it.
func (s *Server) timelineOfObject(id object.Identity, why *insight.Explanation) []moment {
	var history []v1alpha1.HistoryEntry
	for _, e := range why.Edits {
		entry := v1alpha1.HistoryEntry{
			Object: v1alpha1.ProblemObject{APIVersion: why.APIVersion, Kind: why.Kind, Namespace: why.Namespace, Name: why.Name},
			Reason: e.Reason, Message: e.Note, FirstTime: e.First, LastTime: e.Last, Count: e.Count, User: e.User, Manager: e.Manager,
		}
		if e.Fields != "" {
			entry.Fields = strings.Split(e.Fields, ",")
		}
		history = append(history, entry)
	}
	observed := s.observers.editsOf(func(e *edit) bool { return e.Object == id })
	return timelineOf("", history, observed, &id)
}

// explain adds the reason of the revert to the reverted edits, and to the VidraResources the way to keep the edits in the
// manifest.
func (v *objectView) explain(moments []moment) {
	edited := map[string]string{} // the newest values
	for i := range moments {
		m := &moments[i]
		if m.IsReverted() {
			m.Because = v.because(m)
		}
		for _, f := range m.Fields {
			if _, newer := edited[f.Path]; !newer && f.Known && !f.Withheld {
				edited[f.Path] = f.New
			}
		}
	}
	for i := range v.Owners {
		o := &v.Owners[i]
		for _, line := range o.By.Lines {
			o.Changes = append(o.Changes, manifestChange{line.Field, edited[line.Field], within(line.Place, o.By.VidraResource)})
		}
	}
}

// because is the reason of a revert: the value in the manifest of the VidraResource, and its place.
func (v *objectView) because(m *moment) string {
	for _, o := range v.Owners {
		if m.Gone {
			return fmt.Sprintf("Vidra created the object again, because VidraResource %s has it in its manifest", o.By.VidraResource)
		}
		for _, f := range m.Fields {
			i := slices.IndexFunc(o.By.Lines, func(line insight.FieldLine) bool { return line.Field == f.Path })
			if i < 0 {
				continue
			}
			to := ""
			if f.Known && !f.Withheld && f.Old != "" {
				to = " to " + f.Old
			}
			return fmt.Sprintf("Reverted because VidraResource %s sets %s%s (%s)", o.By.VidraResource, f.Path, to, within(o.By.Lines[i].Place, o.By.VidraResource))
		}
	}
	return ""
}

// within is a place in a manifest where the VidraResource is named beside it.
func within(place, vidraResource string) string {
	return strings.Replace(place, " of VidraResource "+vidraResource+",", ",", 1)
}

// marksOwner reports whether a field is the label or the annotation that marks an object of Vidra.
func marksOwner(pointer string) bool {
	under := func(name string) string { return ownership.Field{Tokens: []string{"metadata", name}}.Pointer() + "/" }
	escaped := func(name string) string { return ownership.Field{Tokens: []string{name}}.Pointer()[1:] }
	return pointer == under("labels")+escaped(v1alpha1.ManagedByLabel) || strings.HasPrefix(pointer, under("annotations")+escaped(v1alpha1.OwnerAnnotationPrefix))
}

// originOf counts lines by where they come from: manifests, and others with their names.
func originOf(rows []blameRow) string {
	manifest, foreign, names := 0, 0, []string(nil)
	for _, row := range rows {
		switch {
		case row.Vidra && !marksOwner(row.Line.Pointer):
			manifest++
		case row.Foreign:
			foreign++
			for _, m := range row.Line.Managers {
				if !slices.Contains(names, m.Manager) {
					names = append(names, m.Manager)
				}
			}
		}
	}
	const named = 3
	text := display.Plural(manifest, "line") + " from the manifest, "
	if foreign == 0 {
		return text + "none set by others"
	}
	return text + fmt.Sprintf("%d set by others (%s)", foreign, display.First(names, named, len(names)))
}

// addBlame adds the lines of the object.
func (v *objectView) addBlame(blame *insight.Blame) {
	v.Remarks = blame.Remarks
	for i, line := range blame.Lines {
		v.Blame = append(v.Blame, blameRow{Line: line, Number: i + 1, Vidra: len(line.Manifest) > 0, Foreign: len(line.Manifest) == 0 && len(line.Managers) > 0})
	}
	if !v.Foreign { // then not all lines are known
		v.Origin = originOf(v.Blame)
	}
}
