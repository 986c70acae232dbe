package trigger

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type Health struct {
	Status  status.Status
	Message string
}

func HealthOf(kept any) (Health, bool)            { return Health{}, false }
func Examine(u *unstructured.Unstructured) Health { return Health{} }
