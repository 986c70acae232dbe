package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	// FieldManagerPrefix begins the name of every field manager of Vidra.
	FieldManagerPrefix = "vidra/"

	// maxManager is the longest field manager that the API server accepts
	// (k8s.io/apimachinery/pkg/apis/meta/v1/validation.FieldManagerMaxLength).
	maxManager = 128
	// maxLabelKey is the longest name of an annotation, behind its prefix
	// (k8s.io/apimachinery/pkg/util/validation.IsQualifiedName).
	maxLabelKey = 63
)

// FieldManager is [Installation.FieldManager] of the default installation.
func FieldManager(name string) string { return Installation("").FieldManager(name) }

// OwnerAnnotationKey is [Installation.OwnerAnnotationKey] of the default installation.
func OwnerAnnotationKey(name string) string { return Installation("").OwnerAnnotationKey(name) }

const (
	// hashLength is how many hexadecimal digits end a name that was shortened.
	hashLength = 16
	// maxTrimmed is how many bytes a shortened name may lack, because dashes and dots are
	// taken from before its hash.
	maxTrimmed = 8
)

// fit shortens name to at most n bytes, keeping different names different: also from one
// that is about as long as a shortened one and looks like it.
func fit(name string, n int) string {
	if len(name) < n-maxTrimmed || len(name) <= n && !looksShortened(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:hashLength/2])
	return strings.TrimRight(name[:min(len(name), n-len(hash)-1)], "-.") + "-" + hash
}

// looksShortened reports whether a name ends as fit has names end.
func looksShortened(name string) bool {
	end := name[len(name)-hashLength:]
	return name[len(name)-hashLength-1] == '-' && strings.Trim(end, "0123456789abcdef") == ""
}

// IsOwnerAnnotation reports whether an annotation names an owner, of any installation.
func IsOwnerAnnotation(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return key == OwnerAnnotation || domain == OwnerAnnotationPrefix || strings.HasSuffix(domain, "."+OwnerAnnotationPrefix)
}

// maxListed is how many names OwnersNamed reads of the list of the first operator.
const maxListed = 1024

// OwnersNamed is Owners, in no order, with no more than maxListed names of the list that
// the first operator kept, which anyone who may edit the object can make long.
func OwnersNamed(annotations map[string]string) map[string]bool {
	names := map[string]bool{}
	for key, value := range annotations {
		switch {
		case key == OwnerAnnotation:
			for _, name := range strings.SplitN(value, ",", maxListed+1)[:min(maxListed, 1+strings.Count(value, ","))] {
				names[strings.TrimSpace(name)] = true
			}
		case IsOwnerAnnotation(key):
			names[value] = true
		}
	}
	delete(names, "")
	return names
}

// Owners lists the VidraResources that the annotations of an object name, of any
// installation, in order and without duplicates.
func Owners(annotations map[string]string) []string {
	var names []string
	for key, value := range annotations {
		switch {
		case key == OwnerAnnotation:
			for name := range strings.SplitSeq(value, ",") {
				names = append(names, strings.TrimSpace(name))
			}
		case IsOwnerAnnotation(key):
			names = append(names, value)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}
