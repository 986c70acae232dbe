package ownership

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// EditedByAnnotation names the user who edited an object since Vidra wrote it. The policy in
// config/policies/stamp writes it; without the policy, any user may have.
const EditedByAnnotation = "vidraresource.infrahub.operators.com/edited-by"

const (
	// andOthers ends the annotation where several users edited the object.
	andOthers = " and others"
	// maxUser is how many runes of the name of a user are shown.
	maxUser = 128
)

// UserOf returns the user whom the EditedByAnnotation of an object names, as it is shown; empty if it
// names none. Whether the annotation can be trusted is for the caller to know.
func UserOf(found *unstructured.Unstructured) string {
	if found == nil {
		return ""
	}
	name, several := strings.CutSuffix(found.GetAnnotations()[EditedByAnnotation], andOthers)
	if name == "" {
		return ""
	}
	name = display.TruncateRunes(strings.ToValidUTF8(name, "?"), maxUser)
	if strings.ContainsFunc(name, unusual) {
		name = strconv.Quote(name)
	}
	if several {
		name += andOthers
	}
	return name
}

// unusual reports whether a rune makes the name of a user be quoted, so that it is distinct from the
// text around it.
func unusual(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("@.-_+=~:/#|"+display.Ellipsis, r):
		return false
	}
	return true
}

// SetUser notes the user of the edit in its changes, except in changes through a subresource: the annotation names no user of
// these.
func SetUser(user string, changes ...[]Change) {
	for _, some := range changes {
		for i := range some {
			if some[i].Subresource == "" {
				some[i].User = user
			}
		}
	}
}

// By returns the author of the change: the user and the field manager, as in `alice@example.com (kubectl-edit)`, or the known
// one; empty if both are unknown.
func (c Change) By() string {
	switch {
	case c.User == "" && c.Manager == "":
		return ""
	case c.User == "":
		return strconv.Quote(c.Manager)
	case c.Manager == "":
		return c.User
	}
	manager := c.Manager
	if strings.ContainsFunc(manager, unusual) {
		manager = strconv.Quote(manager)
	}
	return fmt.Sprintf("%s (%s)", c.User, manager)
}
