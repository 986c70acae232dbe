package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// noteFirstReady notes in a status when Ready became True for the first time. A status that an earlier version
// wrote lacks that: there it is when Ready, which becomes False now, became True.
func noteFirstReady(before, after *v1alpha1.VidraResourceStatus, now time.Time) {
	if after.FirstReadyTime != nil {
		return
	}
	was, is := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady), meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionReady)
	switch wasReady := was != nil && was.Status == metav1.ConditionTrue; {
	case wasReady && !is:
		after.FirstReadyTime = was.LastTransitionTime.DeepCopy()
	case is && !wasReady:
		after.FirstReadyTime = &metav1.Time{Time: now.Truncate(time.Second)}
	}
}
