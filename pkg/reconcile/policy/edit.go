package policy

import (
	"fmt"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
)

// Exemption describes the break-glass of an object.
func Exemption(answer *v1alpha1.BreakGlassStatus) string {
	return fmt.Sprintf("its annotations exempt it until %s: %s", answer.Until.UTC().Format(time.RFC3339), answer.Message)
}

var _ = breakglass.Exempts
