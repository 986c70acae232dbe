package testenv

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// touchInterval is how often kube-apiserver is asked for deletions that it forgot.
const touchInterval = 2 * time.Second

// touchedAnnotation holds the resourceVersion that was found.
const touchedAnnotation = "testenv.example.com/touched"

// touchForgotten touches each CustomResourceDefinition whose deletion
// kube-apiserver has forgotten, until ctx ends.
//
// Its finalizer lists the objects of the kind. If no client did before, the answer may
// be that the storage is initializing; it then writes that down and tries again. Its
// cache may not have what it wrote: the conflict ends the attempt, because an event is
// to follow. But one that differs in the condition Terminating only is ignored, so
// that the definition stays for the five minutes to the next resync. Any other write
// to it is heeded.
// See k8s.io/apiextensions-apiserver/pkg/controller/finalizer.
func touchForgotten(ctx context.Context, c client.Client) {
	ticker := time.NewTicker(touchInterval)
	defer ticker.Stop()
	seen := map[types.UID]string{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var crds apiextensionsv1.CustomResourceDefinitionList
		if c.List(ctx, &crds) != nil {
			continue // a test may have stopped the API server
		}
		failed := map[types.UID]string{}
		for i := range crds.Items {
			crd := &crds.Items[i]
			if !deletionFailed(crd) {
				continue
			}
			failed[crd.UID] = crd.ResourceVersion
			if seen[crd.UID] == crd.ResourceVersion {
				touch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, touchedAnnotation, crd.ResourceVersion)
				_ = c.Patch(ctx, crd, client.RawPatch(types.MergePatchType, touch)) // or else at the next tick
			}
		}
		seen = failed
	}
}

// deletionFailed says whether the last attempt to delete the objects of the kind has
// failed.
func deletionFailed(crd *apiextensionsv1.CustomResourceDefinition) bool {
	condition := apihelpers.FindCRDCondition(crd, apiextensionsv1.Terminating)
	return condition != nil && condition.Reason == "InstanceDeletionFailed"
}
