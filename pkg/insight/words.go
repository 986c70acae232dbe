package insight

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Words returns the managed objects of a namespace, and those without one, as the words of a command: KIND/NAME, with the group where kinds
// of several groups have one name. With a kind, which may have its group, they are the names of its objects.
func Words(all []*v1alpha1.VidraResource, namespace, kind string) []string {
	ids, kinds := sets.New[object.Identity](), display.Kinds{}
	for _, vr := range all {
		for i := range vr.Status.ManagedResources {
			id := object.IdentityOf(&vr.Status.ManagedResources[i])
			if id.Namespace != "" && id.Namespace != namespace {
				continue
			}
			ids.Insert(id)
			kinds.Add(id.GroupKind)
		}
	}
	words := sets.New[string]()
	for id := range ids {
		of := id.GroupKind
		if !kinds.Ambiguous(of) {
			of.Group = ""
		}
		switch typed := strings.ToLower(of.String()); {
		case kind == "":
			words.Insert(typed + "/" + id.Name)
		case typed == strings.ToLower(kind):
			words.Insert(id.Name)
		}
	}
	return sets.List(words)
}
