package status

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// exact are the reasons whose messages are always up to date: finalizers are removed one by one, and expressions corrected one by one.
var exact = []string{v1alpha1.ReasonDeletionBlocked, v1alpha1.ReasonHealthCheckInvalid}

// healthProblems returns the unhealthy objects. While they are the same, with the same word of kstatus, so are
// their messages, which count replicas for instance.
func healthProblems(o *Outcome, before v1alpha1.VidraResourceStatus) []v1alpha1.Problem {
	if o.Health == nil {
		return nil
	}
	var was, all []v1alpha1.Problem
	for _, p := range before.Problems {
		if p.Conditions[0] == v1alpha1.ConditionHealthy {
			was = append(was, p)
		}
	}
	switch healthy := plan.HealthOf(before); {
	case !o.Health.AsBefore(before):
		all = o.Health.Problems()
		same := len(all) >= len(was) && (len(all) == len(was) || before.UnlistedProblems > 0) && slices.EqualFunc(was, all[:len(was)],
			func(a, b v1alpha1.Problem) bool {
				if a.Message != b.Message && strings.HasSuffix(b.Message, ": ") { // it is withheld since then
					return false
				}
				word := func(p v1alpha1.Problem) string { word, _, _ := strings.Cut(p.Message, ": "); return word }
				stable := !slices.Contains(exact, a.Reason) && word(a) == word(b) || a.Message == b.Message
				return a.Subject() == b.Subject() && a.Reason == b.Reason && stable
			})
		if same {
			copy(all, was)
		}
	case len(was) == 0 && healthy.Status != metav1.ConditionTrue: // an earlier version wrote it
		all = []v1alpha1.Problem{object.ProblemOf(nil, healthy.Reason, healthy.Message)}
	default:
		all = was
	}
	conditions := []string{v1alpha1.ConditionHealthy}
	if o.vr.Spec.Wait {
		conditions = append(conditions, v1alpha1.ConditionReady)
	}
	for i := range all {
		all[i].Conditions, all[i].Unconfirmed = conditions, false
	}
	return all
}
