package render

import (
	"strings"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// TreeNames returns the objects of a tree as arguments of kubectl, one a line.
func TreeNames(tree *insight.Tree) string { return namesOf(tree.Objects) }

// namesOf are objects as arguments of kubectl.
func namesOf(branches []*insight.Branch) string {
	var b strings.Builder
	for _, each := range branches {
		fprintf(&b, "%s/%s\n", strings.ToLower(each.ID().GroupKind.String()), each.Name)
		b.WriteString(namesOf(each.Owned))
	}
	return b.String()
}

// Tree draws a tree.
func (s Style) Tree(tree *insight.Tree) string {
	names := []string{"OBJECT", "NAMESPACE", "STATE", "HEALTH", "AGE"}
	vr := tree.Root.VidraResource
	cells := []styled{{text: "VidraResource/" + tree.Name}, {}, {text: tree.Root.Ready}, {text: ""}, {text: ageOf(vr.CreationTimestamp.Time, s.Now)}}
	if s.Wide {
		names, cells = append(names, "MESSAGE"), append(cells, styled{})
	}
	rows := [][]styled{heading(names...), cells}
	var kinds display.Kinds
	addKinds(&kinds, tree.Objects)
	var draw func(branches []*insight.Branch, indent string)
	draw = func(branches []*insight.Branch, indent string) {
		for i, b := range branches {
			line, next := "├─", "│ "
			if i == len(branches)-1 {
				line, next = "└─", "  "
			}
			age := ""
			if b.Created != nil {
				age = ageOf(b.Created.Time, s.Now)
			}
			row := []styled{{text: indent + line + kinds.Kind(b.ID().GroupKind) + "/" + b.Name}, {text: b.Namespace}, stateCell(b.State), healthCell(b.Health), {text: age}}
			if s.Wide {
				row = append(row, styled{text: Line(b.Message)})
			}
			rows = append(rows, row)
			draw(b.Owned, indent+next)
		}
	}
	draw(tree.Objects, "")
	return sourceLines(tree.Source) + s.table().rows(rows...)
}

// sourceLines are the lines about sources, before a table.
func sourceLines(sources []v1alpha1.SourceStatus) string {
	var b strings.Builder
	for _, from := range sources {
		fprintf(&b, "Source: %s\n", Line(from.String()))
	}
	return b.String()
}

// addKinds adds the kinds of a tree to a set.
func addKinds(kinds *display.Kinds, branches []*insight.Branch) {
	for _, b := range branches {
		kinds.Add(b.ID().GroupKind)
		addKinds(kinds, b.Owned)
	}
}

func stateCell(state string) styled {
	switch v1alpha1.ObjectState(state) {
	case v1alpha1.ObjectFailed:
		return styled{state, red}
	case v1alpha1.ObjectDrifted, v1alpha1.ObjectContended, v1alpha1.ObjectPending, v1alpha1.ObjectDeleting:
		return styled{state, yellow}
	case v1alpha1.ObjectApplied, v1alpha1.ObjectCompleted:
		return styled{state, green}
	}
	return styled{text: state}
}

func healthCell(health string) styled {
	switch health {
	case "Current":
		return styled{health, green}
	case "Failed", "NotFound":
		return styled{health, red}
	}
	return styled{health, yellow}
}
