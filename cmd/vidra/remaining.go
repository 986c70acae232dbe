package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/terminal"
)

// readers is how many requests are sent at a time.
const readers = 16

// namespaces is the resource of Namespaces.
var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// The ANSI codes of the output.
const (
	bold   = terminal.Bold
	red    = terminal.Red
	green  = terminal.Green
	yellow = terminal.Yellow
)

func oneLine(text string) string { return render.Line(text) }

func sprintf(format string, args ...any) string { return render.Sprintf(format, args...) }

// plural is a number with a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// getVidraResource reads a VidraResource.
func getVidraResource(ctx context.Context, client dynamic.Interface, name string) (*v1alpha1.VidraResource, error) {
	u, err := client.Resource(vidraResources).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !isNoResource(err) {
		return nil, noVidraResource(name)
	} else if err != nil {
		return nil, vidraResourceError("get", name, err)
	}
	return asVidraResource(u)
}

// noVidraResource is the error about a VidraResource that does not exist, with those of all that the user may mean.
func noVidraResource(name string) error {
	return fmt.Errorf("VidraResource %s does not exist; `%s` lists those that do", name, hint("get"))
}

// listVidraResources reads the VidraResources that a label selector selects, in the order of their names.
func listVidraResources(ctx context.Context, client dynamic.Interface, selector string) ([]*v1alpha1.VidraResource, error) {
	list, err := client.Resource(vidraResources).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, vidraResourceError("list", "", err)
	}
	all := make([]*v1alpha1.VidraResource, 0, len(list.Items))
	for i := range list.Items {
		vr, err := asVidraResource(&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, vr)
	}
	slices.SortFunc(all, func(a, b *v1alpha1.VidraResource) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// asVidraResource converts what the API server returned.
func asVidraResource(u *unstructured.Unstructured) (*v1alpha1.VidraResource, error) {
	vr := &v1alpha1.VidraResource{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, vr); err != nil {
		return nil, fmt.Errorf("read VidraResource %s: %w", u.GetName(), err)
	}
	return vr, nil
}

// vidraResourceError adds to an error about VidraResources what the user can do.
func vidraResourceError(verb, name string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not %s VidraResources, which have no namespace: ask for a ClusterRoleBinding to a role with "+
			"that right on %s, such as %s: %w", verb, vidraResources.GroupResource(), roleFor(verb), err)
	case apierrors.IsNotFound(err) && name != "" && !isNoResource(err):
		return noVidraResource(name)
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return fmt.Errorf("the cluster serves no VidraResources: install Vidra, or name another cluster with --context: %w", err)
	}
	return err
}

// roleFor is the ClusterRole of config/rbac that has a right on VidraResources.
func roleFor(verb string) string {
	if slices.Contains([]string{"get", "list", "watch"}, verb) {
		return "vidra-vidraresource-viewer"
	}
	return "vidra-vidraresource-editor"
}

// isNoResource reports whether the API server does not serve the resource, rather than one object of it.
func isNoResource(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name == "")
}

// valueAt is the value to which names and indexes lead; nil if there is none.
func valueAt(value any, path []string) any {
	for _, token := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[token]
		case []any:
			i := indexOf(token)
			if i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// indexOf is the index of a list that a token of a path names; -1 if it names none.
func indexOf(token string) int {
	i, err := strconv.Atoi(token)
	if err != nil {
		return -1
	}
	return i
}

// styled is a text within a line, with an ANSI code; empty for none.
type styled struct{ text, code string }

// paint makes the text safe for a terminal, and adds its codes where colours are shown.
func (s styled) paint(colour bool) string {
	if colour && s.code != "" {
		return terminal.Paint(s.code, s.text)
	}
	return oneLine(s.text)
}

// safeLines escapes each line of a text, and indents it.
func safeLines(indent, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(indent + oneLine(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// fprintf is sprintf into a text.
func fprintf(b *strings.Builder, format string, args ...any) { b.WriteString(sprintf(format, args...)) }

// located is where the manifest of an owner has the object.
type located struct {
	*desired.Located
	vr *v1alpha1.VidraResource
}

// place is where a field of the object is in the manifest.
func (l *located) place(path ...string) string {
	at := *l.Located
	at.Position.Line, at.Position.Item = l.Line(path...), 0
	return at.In(l.vr)
}

// ruleYAML are rules as they are pasted into a VidraResource, with those that it has.
func ruleYAML(vr *v1alpha1.VidraResource, added ...v1alpha1.IgnoreRule) (string, error) {
	var rules []v1alpha1.IgnoreRule
	if vr.Spec.Drift != nil {
		rules = slices.Clone(vr.Spec.Drift.Ignore)
	}
	document, err := json.Marshal(map[string]any{"spec": map[string]any{"drift": map[string]any{"ignore": append(rules, added...)}}})
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(document)
	return string(text), err
}

// isAbout reports whether an entry of a status is about an object.
func isAbout(o v1alpha1.ProblemObject, id object.Identity) bool {
	group := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group
	return id == object.Identity{GroupKind: schema.GroupKind{Group: group, Kind: o.Kind}, Namespace: o.Namespace, Name: o.Name}
}
