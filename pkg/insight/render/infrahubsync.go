package render

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// InfrahubSync returns the state of an InfrahubSync, its problems, and the removals that wait for a confirmation.
func (s Style) InfrahubSync(is *v1alpha1.InfrahubSync) string {
	ready := readyOf(is)
	var b strings.Builder
	fprintf(&b, "InfrahubSync %s: %s\n", is.Name, ready.Reason)
	if ready.Message != "" {
		fprintf(&b, "  %s\n", ready.Message)
	}
	fprintf(&b, "  artifacts %s on branch %s at %s: %d of %d applied\n", is.Spec.Source.ArtifactName, is.Spec.Source.TargetBranch, is.Spec.Source.InfrahubAPIURL,
		is.Status.Applied, is.Status.Artifacts)
	for _, p := range is.Status.Problems {
		fprintf(&b, "  %s: %s\n", p.Reason, p.Message)
	}
	if n := is.Status.UnlistedProblems; n > 0 {
		fprintf(&b, "  and %s\n", display.Plural(int(n), "further problem"))
	}
	if p := is.Status.PendingRemovals; p != nil {
		fprintf(&b, "  %s would be deleted: %s\n  confirm: %s\n", display.Plural(int(p.Count), "VidraResource"), strings.Join(p.Names, ", "),
			s.Program.Hint("infrahub", "sync", "confirm", is.Name))
	}
	return b.String()
}

// InfrahubSyncs returns a table of InfrahubSyncs.
func (s Style) InfrahubSyncs(all []*v1alpha1.InfrahubSync) string {
	rows := [][]string{{"NAME", "READY", "STATUS", "ARTIFACT", "BRANCH", "APPLIED", "URL"}}
	for _, is := range all {
		ready := readyOf(is)
		rows = append(rows, []string{
			is.Name, string(ready.Status), ready.Reason, is.Spec.Source.ArtifactName, is.Spec.Source.TargetBranch,
			strconv.Itoa(int(is.Status.Applied)) + "/" + strconv.Itoa(int(is.Status.Artifacts)), is.Spec.Source.InfrahubAPIURL,
		})
	}
	return Table(rows...)
}

// readyOf returns the condition Ready; one that is Unknown if there is none.
func readyOf(is *v1alpha1.InfrahubSync) metav1.Condition {
	if ready := meta.FindStatusCondition(is.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return *ready
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "Pending", Message: "no operator has synced it yet"}
}
