package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// maxDetails is how many bytes the messages and the health of all objects in the inventory have together, as JSON.
const maxDetails = 64 << 10

// withDetails sets the messages of the entries of an inventory, and returns it. problems are the listed ones, the worst first,
// so that messages change as rarely as the list. Health beyond maxDetails is left out, the health of
// healthy objects first.
func withDetails(entries []v1alpha1.ManagedResourceStatus, problems []v1alpha1.Problem) []v1alpha1.ManagedResourceStatus {
	messages := make(map[v1alpha1.Subject]string, len(problems))
	for i := range problems {
		subject := problems[i].Subject()
		if _, worse := messages[subject]; !worse {
			messages[subject] = display.Truncate(problems[i].Message, v1alpha1.MaxObjectMessage)
		}
	}
	room := func(left int) func(bytes int) bool { // of a field with a name as long as message, or shorter
		return func(bytes int) bool {
			left -= len(`,"message":""`) + bytes
			return left >= 0
		}
	}
	fits, fitsOthers := room(maxDetails), room(maxOthers)
	for i := range entries {
		e := &entries[i]
		if e.Message = ""; len(messages) > 0 {
			e.Message = messages[object.IdentityOf(e).Subject()]
		}
		if e.Message != "" && !fits(2*len(e.Message)) { // quotes in it are escaped
			e.Message = ""
		}
		if e.Others != "" && !fitsOthers(len(e.Others)) {
			e.Others = ""
		}
	}
	for _, healthy := range []bool{false, true} {
		for i := range entries {
			e := &entries[i]
			if e.Health != "" && (e.Health == v1alpha1.ObjectCurrent) == healthy && !fits(len(e.Health)) {
				e.Health = ""
			}
		}
	}
	return entries
}

// maxOthers is how many bytes the records of fields of other managers have together, as JSON.
const maxOthers = 48 << 10

// Changed reports whether a status is to be written, because it differs from the status before. New parts that an earlier version
// left out, which are healthy objects, the fields of other managers, the kubeconfig, the cluster and the account, wait
// for the next write: an upgrade leaves statuses as they are.
func Changed(before, after v1alpha1.VidraResourceStatus) bool {
	if equality.Semantic.DeepEqual(before, after) {
		return false
	}
	if len(before.ManagedResources) != len(after.ManagedResources) {
		return true
	}
	if before.KubeconfigDigest == "" {
		after.KubeconfigDigest = ""
	}
	if before.ClusterUID == "" {
		after.ClusterUID = ""
	}
	if before.AppliedAs == nil {
		after.AppliedAs = nil
	}
	after.ManagedResources = slices.Clone(after.ManagedResources)
	for i := range after.ManagedResources {
		e, was := &after.ManagedResources[i], &before.ManagedResources[i]
		if e.Health == v1alpha1.ObjectCurrent && was.Health == "" {
			e.Health = ""
		}
		if was.Others == "" {
			e.Others = ""
		}
	}
	return !equality.Semantic.DeepEqual(before, after)
}
