package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// action is something that a page offers: a button with AllowWrites, and otherwise the command to copy.
type action struct {
	// Verb names it in requests, and Label on the button.
	Verb, Label, Explains string
	Command               string
	// Kind, Namespace and Name are the object of the action; the kind is empty for a VidraResource.
	Kind, Namespace, Name string
	// Asks reports that the action takes a reason and a duration.
	Asks bool
}

// actionsOf are the actions on a VidraResource.
func (s *Server) actionsOf(vr *v1alpha1.VidraResource) []action {
	suspend := action{Verb: "suspend", Label: "Suspend", Explains: "Vidra applies and reverts nothing until it is resumed"}
	if vr.Spec.Suspend {
		suspend = action{Verb: "resume", Label: "Resume", Explains: "Vidra applies what waits, and reverts edits that were made meanwhile"}
	}
	all := []action{suspend, {Verb: "reconcile", Label: "Reconcile now", Explains: "Vidra compares all objects with the manifest"}}
	for i := range all {
		all[i].Name, all[i].Command = vr.Name, s.options.Program.Hint(all[i].Verb, vr.Name)
	}
	return all
}

// actionsOfObject are the actions on an object.
func (s *Server) actionsOfObject(why *insight.Explanation) []action {
	of := action{Kind: schema.FromAPIVersionAndKind(why.APIVersion, why.Kind).GroupKind().String(), Namespace: why.Namespace, Name: why.Name}
	skip, end, keep := of, of, of
	skip.Verb, skip.Label, skip.Explains, skip.Asks = "skip", "Exempt from reverts", "Vidra reverts no edit of the object for a time (break-glass)", true
	skip.Command = s.options.Program.SkipHint(why.Argument)
	end.Verb, end.Label, end.Explains = "end", "End the exemption", "Vidra reverts the edits that were made meanwhile"
	end.Command = s.options.Program.Hint("skip", why.Argument, "--end")
	keep.Verb, keep.Label, keep.Explains = "keep", "Keep when removed", "The object stays, unmanaged, when Vidra would delete it"
	keep.Command = s.options.Program.Hint("orphan", why.Argument)
	here := slices.DeleteFunc(slices.Clone(why.ManagedBy), func(m insight.ManagedBy) bool { return m.Cluster != "" })
	switch {
	case len(here) == 0: // it is annotated in its cluster
		return nil
	case slices.ContainsFunc(here, func(m insight.ManagedBy) bool { return m.Exempt != nil }):
		return []action{end, keep}
	case !slices.ContainsFunc(here, func(m insight.ManagedBy) bool { return m.SkipWith != "" }):
		return []action{keep}
	}
	return []action{skip, keep}
}

// errAction is a request for an action that cannot be carried out.
var errAction = errors.New("the request for an action is not complete: reload the page")

// act carries out an action with the rights of the user.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	const maxForm = 64 << 10
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	ctx, cancel := context.WithTimeout(r.Context(), questionTimeout)
	defer cancel()
	switch {
	case !s.options.AllowWrites:
		s.fail(w, r, http.StatusForbidden, fmt.Errorf("actions are off: start `%s`, or copy the command", s.options.Program.Hint("ui", "--allow-writes")))
		return
	case r.ParseForm() != nil:
		s.fail(w, r, http.StatusBadRequest, errAction)
		return
	}
	done, err := s.carryOut(ctx, r)
	if err != nil {
		code := http.StatusBadRequest
		if apierrors.IsForbidden(err) {
			code = http.StatusForbidden
		}
		s.fail(w, r, code, err)
		return
	}
	s.render(w, r, http.StatusOK, "result", s.newPage("Done", "", "", done))
}

// carryOut carries out the action of a form, and returns a text about it.
func (s *Server) carryOut(ctx context.Context, r *http.Request) (string, error) {
	name := r.PostFormValue("name")
	of := insight.Target{Kind: strings.ToLower(r.PostFormValue("kind")), Namespace: r.PostFormValue("namespace"), Name: name}
	switch verb := r.PostFormValue("verb"); verb {
	case "suspend", "resume":
		if _, err := s.writes.Suspend(ctx, name, verb == "suspend"); err != nil {
			return "", err
		}
		return fmt.Sprintf("VidraResource %s is %s.", name, map[string]string{"suspend": "suspended", "resume": "resumed"}[verb]), nil
	case "reconcile":
		if _, err := s.writes.Reconcile(ctx, name); err != nil {
			return "", err
		}
		return "VidraResource " + name + " is compared with its manifest.", nil
	case "skip":
		length, err := time.ParseDuration(strings.TrimSpace(r.PostFormValue("for")))
		reason := strings.TrimSpace(r.PostFormValue("reason"))
		switch {
		case err != nil || length <= 0:
			return "", fmt.Errorf("%q is no duration: give one such as 30m or 2h", r.PostFormValue("for"))
		case reason == "":
			return "", errors.New("the reason is missing: without one, Vidra ignores the exemption")
		}
		until := time.Now().Add(length).UTC().Truncate(time.Second)
		if _, err := s.writes.Skip(ctx, of, until, reason); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s: asked for no reverts until %s. The page shows the answer of Vidra.", of.Kind, name, until.Format("2006-01-02 15:04:05 UTC")), nil
	case "end":
		id, err := s.writes.EndSkip(ctx, of)
		if err != nil {
			return "", err
		}
		return id.String() + ": the exemption ended. Edits are reverted.", nil
	case "keep":
		id, err := s.writes.Keep(ctx, of)
		if err != nil {
			return "", err
		}
		return id.String() + " stays when Vidra would delete it.", nil
	}
	return "", errAction
}
