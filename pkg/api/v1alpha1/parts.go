package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// PartOfLabel on a ConfigMap or Secret that `vidra create` wrote names the VidraResource whose manifest it has a part of, as
	// LabelValue returns the name.
	PartOfLabel = "vidraresource.infrahub.operators.com/part-of"
	// PartAnnotation on it has the name of the VidraResource and its own namespace and name, so that a copy of it does not count as one.
	PartAnnotation = "vidraresource.infrahub.operators.com/part"
	// MigratedFromAnnotation on a VidraResource names the tool and its object from which `vidra migrate` adopted the objects.
	MigratedFromAnnotation = "vidraresource.infrahub.operators.com/migrated-from"
	// BeforeMigrationAnnotation on the object of a tool that `vidra migrate` stopped has the fields that it changed, as they were.
	// On a VidraResource it has the way of the former apply, and during an undo the former spec.deletionPolicy.
	BeforeMigrationAnnotation = "vidraresource.infrahub.operators.com/before-migration"
)

// PartIdentity returns the value of PartAnnotation.
func PartIdentity(vidraResource, namespace, name string) string {
	return vidraResource + " " + namespace + "/" + name
}

// LabelValue returns a name as the value of a label, which has at most 63 characters.
func LabelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s", len(name), name))
	return name[:38] + "-" + hex.EncodeToString(sum[:12])
}
