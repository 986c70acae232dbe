package main

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// namesOf are the objects as -o name prints them.
func namesOf(branches []*branch) string {
	var b strings.Builder
	for _, each := range branches {
		kind := strings.ToLower(each.Kind)
		if group := schema.FromAPIVersionAndKind(each.APIVersion, each.Kind).Group; group != "" {
			kind += "." + group
		}
		fprintf(&b, "%s/%s\n", kind, each.Name)
		b.WriteString(namesOf(each.Owned))
	}
	return b.String()
}

// treeText draws a tree.
func treeText(vr *v1alpha1.VidraResource, branches []*branch, text *textTable, wide bool, now time.Time) string {
	names := []string{"OBJECT", "NAMESPACE", "STATE", "HEALTH", "AGE"}
	root := reportOf(vr)
	cells := []styled{{text: "VidraResource/" + vr.Name}, {}, {text: root.Ready}, {text: ""}, {text: ageOf(vr.CreationTimestamp.Time, now)}}
	if wide {
		names, cells = append(names, "MESSAGE"), append(cells, styled{})
	}
	rows := [][]styled{heading(names...), cells}
	var draw func(branches []*branch, indent string)
	draw = func(branches []*branch, indent string) {
		for i, b := range branches {
			line, next := "├─", "│ "
			if i == len(branches)-1 {
				line, next = "└─", "  "
			}
			age := ""
			if b.Created != nil {
				age = ageOf(b.Created.Time, now)
			}
			row := []styled{{text: indent + line + b.Kind + "/" + b.Name}, {text: b.Namespace}, stateCell(b.State), healthCell(b.Health), {text: age}}
			if wide {
				row = append(row, styled{text: oneLine(b.Message)})
			}
			rows = append(rows, row)
			draw(b.Owned, indent+next)
		}
	}
	draw(branches, "")
	return text.rows(rows...)
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
