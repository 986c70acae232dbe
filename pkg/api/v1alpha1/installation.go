package v1alpha1

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Installation identifies a Vidra installation: its operators write the same objects under
// the same names, and reconcile the same VidraResources. It is empty for the default
// installation, and otherwise a DNS label. All field managers, owner annotations and
// finalizers are made by its methods, and those of two installations are never the same.
type Installation string

// ParseInstallation returns the installation of a name: empty, or a DNS label.
func ParseInstallation(name string) (Installation, error) {
	if name == defaultInstallation {
		return "", fmt.Errorf("%q is the installation without a name: give none", name)
	}
	if problems := validation.IsDNS1123Label(name); name != "" && len(problems) > 0 {
		return "", fmt.Errorf("%q is no name of an installation: %s", name, strings.Join(problems, ", "))
	}
	return Installation(name), nil
}

// InstallationOf returns the installation that reconciles a VidraResource.
func InstallationOf(vr *VidraResource) Installation {
	return Installation(vr.Labels[InstallationLabel])
}

// defaultInstallation is the name of the unnamed installation in messages.
const defaultInstallation = "default"

// String returns the name for messages.
func (i Installation) String() string {
	if i == "" {
		return defaultInstallation
	}
	return string(i)
}

// installationMark is between the name of the VidraResource and that of the installation in
// a field manager. Neither of the two can contain it.
const installationMark = "@"

// FieldManager is the field manager of the applies of the VidraResource name:
// "vidra/NAME", or "vidra/NAME@INSTALLATION". A name that is too long is shortened with a
// hash; the installation never is, so that it can be read from the field manager.
func (i Installation) FieldManager(name string) string {
	end := ""
	if i != "" {
		end = installationMark + string(i)
	}
	return FieldManagerPrefix + fit(name, maxManager-len(FieldManagerPrefix)-len(end)) + end
}

// ParseFieldManager returns the VidraResource, of which a long name is shortened, and the
// installation of a field manager that begins with FieldManagerPrefix.
func ParseFieldManager(manager string) (name string, installation Installation) {
	name, end, _ := strings.Cut(strings.TrimPrefix(manager, FieldManagerPrefix), installationMark)
	return name, Installation(end)
}

// Applies reports whether a field manager is one of the installation.
func (i Installation) Applies(manager string) bool {
	_, of := ParseFieldManager(manager)
	return strings.HasPrefix(manager, FieldManagerPrefix) && of == i
}

// OwnerAnnotationKey is the annotation that the VidraResource name sets on the objects that
// it owns: "owner.vidraresource.infrahub.operators.com/NAME", with the installation and a
// dot before it.
func (i Installation) OwnerAnnotationKey(name string) string {
	return i.within(OwnerAnnotationPrefix) + "/" + fit(name, maxLabelKey)
}

// Finalizer keeps a VidraResource until the installation has removed, or released, what it
// applied for it.
func (i Installation) Finalizer() string { return i.within(Finalizer) }

// within puts the installation before a domain.
func (i Installation) within(domain string) string {
	if i == "" {
		return domain
	}
	return string(i) + "." + domain
}

// HeldByAnother returns the installation, other than i, that has still to release what it
// applied for a VidraResource.
func (i Installation) HeldByAnother(vr *VidraResource) (other Installation, held bool) {
	for _, finalizer := range vr.Finalizers {
		name, found := strings.CutSuffix(finalizer, Finalizer)
		name = strings.TrimSuffix(name, ".")
		if found && Installation(name).Finalizer() == finalizer && Installation(name) != i {
			return Installation(name), true
		}
	}
	return "", false
}
