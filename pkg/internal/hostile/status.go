// Package hostile makes statuses that another client may have written to a VidraResource, for tests.
package hostile

import (
	"math"
	"math/rand/v2"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// Seeds is how many statuses a test tries.
const Seeds = 200

// texts are the values of strings: those that the code compares, and others.
var texts = []string{
	"", "", "v1", "v1", "apps/v1", "a/b/c", "ConfigMap", "ConfigMap", "Secret", "Namespace", "shop", "default", "web", "page", "true", "1", "null", `"red"`, "data.color",
	"True", "False", "Unknown", v1alpha1.ConditionReady, v1alpha1.ConditionReady, v1alpha1.ConditionHealthy, v1alpha1.ConditionDrifted, v1alpha1.ConditionWatching,
	v1alpha1.ConditionSuspended, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonPruneFailed, v1alpha1.ReasonDriftDetected, v1alpha1.ReasonDriftContended, v1alpha1.ReasonRevisionHeld,
	v1alpha1.ReasonProgressing, "DriftCorrected", string(v1alpha1.BreakGlassAccepted), string(v1alpha1.BreakGlassAccepted), string(v1alpha1.BreakGlassIgnored), string(v1alpha1.BreakGlassEnded),
	string(v1alpha1.ObjectContended), string(v1alpha1.ObjectCompleted), string(v1alpha1.ObjectUnhealthy), "vidra/shop", "shop/account", "sealed:", "…\x1b[31m\u202e", "2026-01-31T18:00:00Z",
}

var numbers = []int64{0, -1, 1, 2, 30, math.MinInt64, math.MaxInt64, math.MaxInt32}

// Status returns the status of a seed. Any field may be absent, and an item of a list may be there twice.
func Status(seed uint64) v1alpha1.VidraResourceStatus {
	status := v1alpha1.VidraResourceStatus{}
	fill(rand.New(rand.NewPCG(seed, 0)), reflect.ValueOf(&status).Elem()) //nolint:gosec // the same each time
	for i := range status.Problems {
		if p := &status.Problems[i]; len(p.Conditions) == 0 { // the CustomResourceDefinition refuses that
			p.Conditions = []string{texts[int(seed)%len(texts)]} //nolint:gosec // small
		}
	}
	return status
}

func fill(r *rand.Rand, v reflect.Value) {
	if v.Type() == reflect.TypeFor[metav1.Time]() {
		all := []time.Time{{}, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
		v.Set(reflect.ValueOf(metav1.NewTime(all[r.IntN(len(all))])))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	case reflect.Slice:
		all := reflect.MakeSlice(v.Type(), r.IntN(5), 8)
		for i := range all.Len() {
			if i > 0 && r.IntN(3) == 0 {
				all.Index(i).Set(all.Index(i - 1))
				continue
			}
			fill(r, all.Index(i))
		}
		if all.Len() > 0 {
			v.Set(all)
		}
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		if n := numbers[r.IntN(len(numbers))]; !v.OverflowInt(n) {
			v.SetInt(n)
		}
	default:
		panic("the status has a field of type " + v.Type().String() + ", which this package cannot fill")
	}
}
